//! Tests the state machine with random inputs. [`observing`] checks its invariants after every step.
//!
//! `ENCKE_SEED=<n>` runs one seed; without it, a fixed range and one random seed.

mod observing;

use std::time::Duration;

use encke_seeds::with_seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::harness::SessionHarness;
use super::*;
use crate::Timestamp;
use crate::close::{CloseReason, SuspendReason};

const STEPS: usize = 400;

#[test]
fn invariants_hold_whatever_happens() {
    with_seeds(0..300, |seed| RandomRun::new(seed).run());
}

/// A session, with everything that an observer can derive from its inputs and outputs.
struct RandomRun {
    rng: SmallRng,
    session: SessionHarness,
    timeouts: SessionTimeouts,
    /// Time passed to the next call. It may go backwards.
    now: u64,
    /// The latest time passed so far.
    latest: u64,
    connections: u64,
    events: u32,
    /// Phase according to the events so far.
    observed: ObservedPhase,
    ping_requested: bool,
    ping_sent_at: Option<Timestamp>,
    last_received_at: Timestamp,
    /// Whether the current or last connection is a poll.
    is_polling: bool,
    /// The held poll, until it has been answered or ended.
    held_poll: Option<ConnectionId>,
    /// When the held request must be answered.
    hold_due: Option<Timestamp>,
    /// When the last connection or poll ended.
    detached_at: Timestamp,
    /// End of the reconnect window, while suspended.
    window_end: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ObservedPhase {
    Nothing,
    Attached,
    Between,
    Suspended,
    Over,
}

fn millis(ms: u64) -> Timestamp {
    Timestamp::from_nanos(ms * 1_000_000)
}

fn random_hold(rng: &mut SmallRng) -> Duration {
    if rng.random_bool(0.1) { Duration::ZERO } else { Duration::from_millis(rng.random_range(1..600)) }
}

fn random_attach(rng: &mut SmallRng, now: u64, connection: u64) -> Attach {
    let kind = match rng.random_range(0..5) {
        0..2 => ConnectionKind::Poll { hold: random_hold(rng) },
        2 => ConnectionKind::Stream(Heartbeat::Message),
        _ => ConnectionKind::Stream(Heartbeat::Frame),
    };
    let token_expires = rng.random_bool(0.2).then(|| millis(now + rng.random_range(0..20_000)));
    let seq = rng.random_bool(0.3).then(|| rng.random_range(0..2));
    let delivery = if rng.random() { DeliveryMode::AtLeastOnce } else { DeliveryMode::AtMostOnce };
    Attach { connection: ConnectionId(connection), kind, seq, delivery, token_expires, entropy: rng.random() }
}

impl RandomRun {
    fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let now = 1_000;
        let timeouts = SessionTimeouts {
            ping_interval: Duration::from_millis(rng.random_range(100..2_000)),
            pong_timeout: Duration::from_millis(rng.random_range(20..100)),
            poll_hold: Duration::from_millis(rng.random_range(50..500)),
            poll_gap: Duration::from_millis(300),
            reconnect_window: Duration::from_millis(rng.random_range(50..5_000)),
            idle: rng.random_bool(0.3).then(|| Duration::from_millis(rng.random_range(500..50_000))),
            lifetime: rng.random_bool(0.3).then(|| Duration::from_millis(rng.random_range(5_000..500_000))),
        };
        let attach = random_attach(&mut rng, now, 1);
        let session = SessionHarness::open(millis(now), &timeouts, Outbox::new(1024), attach);
        let mut run = Self {
            rng,
            session,
            timeouts,
            now,
            latest: now,
            connections: 1,
            events: 0,
            observed: ObservedPhase::Nothing,
            ping_requested: false,
            ping_sent_at: None,
            last_received_at: millis(now),
            is_polling: false,
            held_poll: None,
            hold_due: None,
            detached_at: millis(now),
            window_end: millis(now),
        };
        run.attached(&attach);
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
        assert_eq!(self.observed, ObservedPhase::Over, "every session ends exactly once");
        assert_eq!(self.session.next_deadline(), None);
    }

    fn step(&mut self) {
        self.pass_time();
        let now = millis(self.now);
        let connection =
            ConnectionId(self.rng.random_range(self.connections.saturating_sub(1).max(1)..=self.connections));
        let input = match self.rng.random_range(0..120) {
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
            99..102 => ConnectionInput::Sent,
            102..107 => {
                ConnectionInput::Answered { pause: Duration::from_millis(self.rng.random_range(0..200)) }
            }
            107..108 => ConnectionInput::AnswerLost,
            108..112 => ConnectionInput::Hold { hold: random_hold(&mut self.rng), seq: None },
            112..114 => ConnectionInput::Released,
            114..119 => return self.request(),
            _ if self.rng.random_bool(0.05) => ConnectionInput::Close(CloseReason::Client),
            _ => ConnectionInput::Ack { seq: 0 },
        };
        self.handle_connection(connection, input);
    }

    fn handle_connection(&mut self, connection: ConnectionId, input: ConnectionInput) {
        // Fire and observe due deadlines first, to know whether the session still accepts the input.
        let before = self.fire_what_is_due();
        let counts = before == Phase::Attached(connection);
        self.session.handle(millis(self.now), Input::Connection(connection, input));
        let at = millis(self.latest);
        match input {
            ConnectionInput::PingSent { .. } if counts && self.ping_requested => {
                self.ping_requested = false;
                self.ping_sent_at = Some(at);
            }
            ConnectionInput::Sent if counts && self.is_polling => {
                (self.held_poll, self.hold_due) = (None, None)
            }
            ConnectionInput::Answered { .. } | ConnectionInput::Ended(_) if counts && self.is_polling => {
                (self.held_poll, self.hold_due, self.detached_at, self.observed) =
                    (None, None, at, ObservedPhase::Between);
            }
            ConnectionInput::Hold { hold, .. } if counts && !self.is_polling => {
                self.hold_due = (!hold.is_zero()).then(|| at + hold.min(self.timeouts.poll_hold));
            }
            ConnectionInput::Released if counts && !self.is_polling => self.hold_due = None,
            _ => {}
        }
    }

    fn fire_what_is_due(&mut self) -> Phase {
        self.session.handle_timeout(millis(self.now));
        self.observe_all();
        self.session.phase()
    }

    fn request(&mut self) {
        let phase = self.fire_what_is_due();
        let request = match self.rng.random_range(0..4) {
            0 => RequestInput::Activity,
            1 => RequestInput::Command,
            2 => RequestInput::Ack { seq: 0 },
            _ => RequestInput::TokenRefreshed(Some(millis(self.now + 5_000))),
        };
        self.session.handle(millis(self.now), Input::Request(request));
        let at = millis(self.latest);
        if self.is_polling || phase == Phase::Suspended {
            self.last_received_at = self.last_received_at.max(at);
        }
        if phase == Phase::Suspended {
            self.window_end = self.expected_window_end();
        }
    }

    /// Advances the time, mostly in short steps; sometimes to the next deadline or just before it, far ahead,
    /// or backwards.
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
            return;
        }
        assert_eq!(self.session.phase(), Phase::Attached(attach.connection), "was {before:?}");
        self.replaced_by(&attach);
    }

    fn attached(&mut self, attach: &Attach) {
        let at = millis(self.latest);
        self.last_received_at = at;
        (self.is_polling, self.held_poll, self.hold_due) = (false, None, None);
        if let ConnectionKind::Poll { hold } = attach.kind {
            self.is_polling = true;
            self.held_poll = Some(attach.connection);
            self.hold_due = (!hold.is_zero()).then(|| at + hold.min(self.timeouts.poll_hold));
        }
    }
}
