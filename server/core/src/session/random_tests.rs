//! The whole machine under random inputs, its invariants looked at after every step.
//!
//! `ENCKE_SEED=<n>` runs one seed; without it, a fixed range and one fresh seed.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::Timestamp;
use crate::close::{CloseReason, SuspendReason};

const STEPS: usize = 400;

#[test]
fn invariants_hold_whatever_happens() {
    let seeds = match std::env::var("ENCKE_SEED") {
        Ok(seed) => vec![seed.parse().expect("ENCKE_SEED is a number")],
        Err(_) => (0..300).chain([rand::random()]).collect(),
    };
    for seed in seeds {
        println!("ENCKE_SEED={seed}");
        Run::new(seed).run();
    }
}

/// A session, and what an observer knows of it from its outputs alone.
struct Run {
    rng: SmallRng,
    session: Session,
    /// The time given next, which may go backwards.
    now: u64,
    /// The latest time given.
    latest: u64,
    connections: u64,
    events: u32,
    /// What the events so far say the phase is.
    known: Known,
    ping_requested: bool,
    ping_sent_at: Option<Timestamp>,
    last_received_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    Nothing,
    Attached,
    Suspended,
    Over,
}

fn millis(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn random_attach(rng: &mut SmallRng, now: u64, connection: u64) -> Attach {
    let kind = match rng.random_range(0..5) {
        0 => ConnectionKind::Poll,
        1 => ConnectionKind::Stream(Heartbeat::Message),
        _ => ConnectionKind::Stream(Heartbeat::Frame),
    };
    let token_expires = rng.random_bool(0.2).then(|| millis(now + rng.random_range(0..20_000)));
    let seq = rng.random_bool(0.3).then(|| rng.random_range(0..2));
    Attach { connection: ConnectionId(connection), kind, seq, token_expires, entropy: rng.random() }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let now = 1_000;
        let timeouts = SessionTimeouts {
            ping_interval: Duration::from_millis(rng.random_range(100..2_000)),
            pong_timeout: Duration::from_millis(rng.random_range(20..100)),
            poll_hold: Duration::from_millis(rng.random_range(50..500)),
            reconnect_window: Duration::from_millis(rng.random_range(50..5_000)),
            idle: rng.random_bool(0.3).then(|| Duration::from_millis(rng.random_range(500..50_000))),
            lifetime: rng.random_bool(0.3).then(|| Duration::from_millis(rng.random_range(5_000..500_000))),
        };
        let attach = random_attach(&mut rng, now, 1);
        let session = Session::open(millis(now), Arc::new(timeouts), Outbox::new(1024), attach);
        let mut run = Self {
            rng,
            session,
            now,
            latest: now,
            connections: 1,
            events: 0,
            known: Known::Nothing,
            ping_requested: false,
            ping_sent_at: None,
            last_received_at: millis(now),
        };
        run.check();
        run
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            self.step();
            self.check();
        }
        self.session.handle(millis(self.now), Input::Close(CloseReason::Draining));
        self.check();
        assert_eq!(self.known, Known::Over, "every session ends, and says so once");
        assert_eq!(self.session.next_deadline(), None);
    }

    fn step(&mut self) {
        self.pass_time();
        let now = millis(self.now);
        let connection =
            ConnectionId(self.rng.random_range(self.connections.saturating_sub(1).max(1)..=self.connections));
        let input = match self.rng.random_range(0..100) {
            0..30 => return self.session.handle_timeout(now),
            30..45 => return self.receive(now),
            45..65 if self.ping_requested => ConnectionInput::PingSent { seq: 0 },
            65..75 => ConnectionInput::PongFrame { seq: self.rng.random_range(0..2) },
            75..80 => ConnectionInput::Probed,
            80..83 => ConnectionInput::WriteHeld,
            83..87 => ConnectionInput::WriteResumed,
            87..89 => ConnectionInput::Command,
            89..90 => ConnectionInput::TokenRefreshed(Some(millis(self.now + 5_000))),
            90..92 => ConnectionInput::Ended(SuspendReason::ConnectionLost),
            92..98 => return self.attach(),
            98..99 => return self.session.handle(now, Input::Disconnect),
            _ if self.rng.random_bool(0.05) => ConnectionInput::Close(CloseReason::Client),
            _ => ConnectionInput::Ack { seq: 0 },
        };
        let sent = matches!(input, ConnectionInput::PingSent { .. });
        self.session.handle(now, Input::Connection(connection, input));
        if sent && self.session.phase() == Phase::Attached(connection) && self.ping_requested {
            self.ping_requested = false;
            self.ping_sent_at = Some(millis(self.latest));
        }
    }

    /// Mostly short steps, sometimes to the next deadline or just before it, sometimes far, sometimes back.
    fn pass_time(&mut self) {
        let next = self.session.next_deadline().map(|(at, _)| at.as_nanos() / 1_000_000);
        self.now = match (self.rng.random_range(0..10), next) {
            (0..3, Some(next)) => next.max(self.now),
            (3..5, Some(next)) => (next - 1).max(self.now),
            (5, _) => self.now + self.rng.random_range(0..10_000),
            (6, _) => self.now.saturating_sub(self.rng.random_range(0..50)).max(1_000),
            _ => self.now + self.rng.random_range(0..50),
        };
        self.latest = self.latest.max(self.now);
    }

    fn receive(&mut self, now: Timestamp) {
        self.session.received(now);
        self.last_received_at = self.last_received_at.max(now);
    }

    fn attach(&mut self) {
        self.connections += 1;
        let attach = random_attach(&mut self.rng, self.now, self.connections);
        let before = self.session.phase();
        self.session.handle(millis(self.now), Input::Attach(attach));
        let refused = matches!(self.session.phase(), Phase::Closed(_)) || attach.seq == Some(1);
        if refused {
            assert_ne!(self.session.phase(), Phase::Attached(attach.connection), "was {before:?}");
        } else {
            assert_eq!(self.session.phase(), Phase::Attached(attach.connection), "was {before:?}");
        }
    }

    fn check(&mut self) {
        let mut count = 0;
        while let Some(output) = self.session.poll_output() {
            count += 1;
            self.observe(output);
        }
        assert!(count <= <Session>::MAX_OUTPUTS, "{count} outputs of one call");
        let phase = match self.session.phase() {
            Phase::Attached(_) => Known::Attached,
            Phase::Suspended => Known::Suspended,
            Phase::Closed(_) => Known::Over,
        };
        assert_eq!(self.known, phase, "the events tell every transition");
        for (_, deadline) in self.session.deadlines() {
            let allowed = match deadline {
                Deadline::Ping | Deadline::Pong | Deadline::PollHold | Deadline::Token => {
                    phase == Known::Attached
                }
                Deadline::Reconnect => phase == Known::Suspended,
                Deadline::Idle | Deadline::Lifetime => phase != Known::Over,
            };
            assert!(allowed, "{deadline:?} armed while {phase:?}");
        }
        let armed = |wanted| self.session.deadlines().any(|(_, deadline)| deadline == wanted);
        assert!(!(armed(Deadline::Ping) && armed(Deadline::Pong)), "a ping is outstanding or it is not");
        assert!(!(armed(Deadline::Ping) && armed(Deadline::PollHold)), "a stream or a poll");
        assert_eq!(armed(Deadline::Reconnect), phase == Known::Suspended, "every suspension ends");
        self.session.handle_timeout(millis(self.latest));
        if let Some((at, deadline)) = self.session.next_deadline() {
            assert!(at > millis(self.latest), "{deadline:?} missed");
        }
        while let Some(output) = self.session.poll_output() {
            self.observe(output);
        }
    }

    fn observe(&mut self, output: Output) {
        match output {
            Output::Event(event) => self.observe_event(event),
            Output::Ping(connection) => {
                assert_eq!(self.known, Known::Attached, "only a connection can be asked");
                assert!(!self.ping_requested, "one ping at a time");
                assert!(connection.0 <= self.connections);
                self.ping_requested = true;
            }
            Output::Fired(deadline, due) => assert!(due <= millis(self.latest), "{deadline:?} early"),
            Output::Probe(_) | Output::AnswerPoll(_) | Output::Close(..) | Output::RoundTrip(_) => {}
        }
    }

    fn observe_event(&mut self, event: LifecycleEvent) {
        self.events += 1;
        assert_eq!(event.number, self.events);
        let next = match (self.known, event.transition) {
            (Known::Nothing, Transition::Opened) => Known::Attached,
            (Known::Attached, Transition::Suspended(reason)) => {
                if reason == SuspendReason::PongTimeout {
                    let sent = self.ping_sent_at.expect("none is given up without a ping");
                    assert!(
                        self.last_received_at < sent,
                        "received at {:?}, sent at {sent:?}",
                        self.last_received_at
                    );
                }
                Known::Suspended
            }
            (Known::Suspended, Transition::Resumed(ResumeKind::Reconnect)) => Known::Attached,
            (Known::Attached, Transition::Resumed(ResumeKind::TakeOver)) => Known::Attached,
            (Known::Suspended, Transition::Expired) => Known::Over,
            (Known::Attached | Known::Suspended, Transition::Closed(_)) => Known::Over,
            (known, transition) => panic!("{transition:?} after {known:?}"),
        };
        if next != self.known || matches!(event.transition, Transition::Resumed(_)) {
            self.ping_requested = false;
            self.ping_sent_at = None;
        }
        self.known = next;
    }
}
