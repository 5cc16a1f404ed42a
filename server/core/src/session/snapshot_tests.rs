//! A session that was saved and restored responds to every input like the original.
//!
//! `ENCKE_SEED=<n>` runs one seed; without it, a fixed range and one random seed.

use std::time::Duration;

use encke_seeds::with_seeds;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use super::harness::SessionHarness;
use super::outbox::{LogHandle, TurnOutcome};
use super::replay_tests::logs::{LogRef, ModelLogs};
use super::*;
use crate::Timestamp;
use crate::close::{CloseCode, CloseReason, SuspendReason};

const SEEDS: u64 = 2_000;
const STEPS: usize = 150;

#[test]
fn a_restored_session_behaves_like_the_original() {
    let mut restored = 0;
    let seeds = with_seeds(0..SEEDS, |seed| restored += SessionPair::new(seed).run());
    assert!(restored * 2 > seeds, "most sessions are restored at least once: {restored}");
}

/// Two sessions with identical inputs, except that one of them is saved and restored from time to time, each
/// time with a different clock.
struct SessionPair {
    rng: SmallRng,
    logs: ModelLogs,
    timeouts: SessionTimeouts,
    max_unacked: usize,
    plain: SessionHarness<LogRef>,
    restored: SessionHarness<LogRef>,
    now_ms: u64,
    /// Offset of the restored session's clock.
    ahead_ms: u64,
    connections: u64,
    count: usize,
}

impl SessionPair {
    fn new(seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut some = |range: std::ops::Range<u64>| Duration::from_millis(rng.random_range(range));
        let timeouts = SessionTimeouts {
            ping_interval: some(100..2_000),
            pong_timeout: some(20..100),
            poll_hold: some(50..500),
            poll_gap: some(20..300),
            reconnect_window: some(300..20_000),
            idle: Some(some(2_000..50_000)),
            lifetime: Some(some(20_000..500_000)),
        };
        let logs = ModelLogs::new(&mut rng);
        let max_unacked = 4 << rng.random_range(0..4);
        let attach = random_attach(&mut rng, 1, 0);
        let open = || {
            let outbox = Outbox::new(max_unacked);
            SessionHarness::open(at(0), &timeouts, outbox, attach)
        };
        let (plain, restored) = (open(), open());
        let (now_ms, ahead_ms, connections, count) = (0, 0, 1, 0);
        Self { rng, logs, timeouts, max_unacked, plain, restored, now_ms, ahead_ms, connections, count }
    }

    fn run(mut self) -> usize {
        for _ in 0..STEPS {
            self.step();
            self.compare();
        }
        self.count
    }

    fn step(&mut self) {
        let connection = ConnectionId(self.connections.saturating_sub(self.rng.random_range(0..2)));
        let seq = self.rng.random_range(0..=self.plain.outbox().seq() + 1);
        let input = match self.rng.random_range(0..100) {
            0..10 => return self.publish(),
            10..20 => return self.pass_time(),
            20..45 => return self.take(),
            45..55 => return self.change_subscriptions(),
            55..58 => return self.restore(),
            58..68 => {
                self.connections += 1;
                Input::Attach(random_attach(&mut self.rng, self.connections, seq))
            }
            68..72 => Input::Request(RequestInput::Ack { seq }),
            72..74 => Input::Request(RequestInput::Command),
            74..76 => Input::Connection(connection, ConnectionInput::AnswerLost),
            76..78 => Input::Connection(connection, ConnectionInput::Ended(SuspendReason::ConnectionLost)),
            78..82 => Input::Connection(connection, ConnectionInput::PingSent { seq }),
            82..85 => Input::Connection(connection, ConnectionInput::PongFrame { seq }),
            85..87 => Input::Connection(connection, ConnectionInput::PongMessage { seq }),
            87..91 => Input::Connection(connection, ConnectionInput::Ack { seq }),
            91..93 => Input::Connection(connection, ConnectionInput::Sent),
            93..96 => {
                let pause = Duration::from_millis(self.rng.random_range(0..50));
                Input::Connection(connection, ConnectionInput::Answered { pause })
            }
            96 => Input::Connection(
                connection,
                ConnectionInput::Hold { hold: Duration::from_millis(9), seq: None },
            ),
            97 => Input::Connection(connection, ConnectionInput::Released),
            98 => Input::Disconnect,
            _ if self.rng.random_bool(0.1) => Input::Close(CloseReason::Kicked),
            _ => Input::Request(RequestInput::Activity),
        };
        // A seq that was never sent ends the session or is refused, so most of these are skipped.
        let is_too_much = seq > self.plain.outbox().seq() && self.rng.random_bool(0.9);
        if is_too_much {
            return;
        }
        self.plain.handle(at(self.now_ms), input);
        self.restored.handle(at(self.now_ms + self.ahead_ms), input);
    }

    fn publish(&mut self) {
        let channel = self.rng.random_range(0..self.logs.channels);
        for _ in 0..self.rng.random_range(1..6) {
            self.logs.publish(channel);
        }
        if self.rng.random_bool(0.2) {
            let log = self.rng.random_range(0..self.logs.len());
            self.logs.trim(log, &mut self.rng);
        }
        let slots: Vec<_> = self.plain.outbox().subscriptions().map(|it| it.slot).collect();
        for slot in slots {
            self.plain.outbox_mut().mark_ready(slot);
            self.restored.outbox_mut().mark_ready(slot);
        }
    }

    fn pass_time(&mut self) {
        self.now_ms += self.rng.random_range(0..400);
        self.plain.handle_timeout(at(self.now_ms));
        self.restored.handle_timeout(at(self.now_ms + self.ahead_ms));
    }

    fn take(&mut self) {
        let Phase::Attached(connection) = self.plain.phase() else { return };
        let at_most = self.rng.random_range(1..8);
        let [plain, restored] = [&mut self.plain, &mut self.restored].map(|session| {
            let outbox = session.outbox_mut();
            let turn = outbox.next_turn()?;
            let log = *outbox.channel(turn.slot).expect("the turn has a channel");
            let log = usize::try_from(log.log()).expect("small");
            let bounds = self.logs.bounds(log);
            Some((turn, outbox.take(turn, bounds, at_most, |offset| self.logs.places(log, offset))))
        });
        assert_eq!(plain, restored);
        if let Some((_, TurnOutcome::Messages { .. } | TurnOutcome::Gap { .. })) = plain {
            let input = Input::Connection(connection, ConnectionInput::Sent);
            self.plain.handle(at(self.now_ms), input);
            self.restored.handle(at(self.now_ms + self.ahead_ms), input);
        }
    }

    fn change_subscriptions(&mut self) {
        if matches!(self.plain.phase(), Phase::Closed(_)) {
            return;
        }
        let log = self.rng.random_range(0..self.logs.len());
        let found = self.plain.outbox().subscriptions().find(|it| it.channel.log() == log as u64);
        let found = found.map(|it| it.slot);
        match found {
            Some(slot) if self.rng.random_bool(0.3) => {
                self.plain.outbox_mut().unsubscribe(slot);
                self.restored.outbox_mut().unsubscribe(slot);
            }
            Some(_) => {}
            None => {
                let cursor = self.rng.random_range(0..=self.logs.bounds(log).last);
                let gap = self.rng.random_bool(0.2);
                let [plain, restored] = [&mut self.plain, &mut self.restored]
                    .map(|session| session.outbox_mut().subscribe(self.logs.get(log), cursor, gap));
                assert_eq!(plain, restored);
            }
        }
    }

    /// One session loses its connection, the other moves to another process.
    fn restore(&mut self) {
        self.plain.handle(at(self.now_ms), Input::Disconnect);
        self.restored.handle(at(self.now_ms + self.ahead_ms), Input::Move);
        self.plain.outbox().check_invariants();
        for session in [&mut self.plain, &mut self.restored] {
            while session.poll_output().is_some() {}
        }
        let Some(record) = self.restored.snapshot() else {
            assert!(matches!(self.restored.phase(), Phase::Closed(_)));
            return;
        };
        assert_eq!(self.restored.next_deadline(), None, "a moved session has no deadlines");
        self.restored.handle(at(self.now_ms + self.ahead_ms + 1_000_000), Input::Close(CloseReason::Kicked));
        assert_eq!(self.restored.snapshot().as_ref(), Some(&record), "a moved session ignores inputs");

        let bytes = minicbor::to_vec(&record).expect("writing to memory cannot fail");
        let read: SessionRecord = minicbor::decode(&bytes).expect("the record is valid");
        assert_eq!(read, record);
        let outbox = Outbox::restore(&read.outbox, self.max_unacked, |log, _, _| {
            Some(self.logs.get(usize::try_from(log).expect("small")))
        });
        self.ahead_ms = self.rng.random_range(0..1_000_000);
        let now = at(self.now_ms + self.ahead_ms);
        let session = outbox.and_then(|outbox| SessionHarness::restore(now, &self.timeouts, &read, outbox));
        self.restored = session.expect("the record is valid");
        self.count += 1;
    }

    fn compare(&mut self) {
        let ahead = Duration::from_millis(self.ahead_ms);
        let back = |at: Timestamp| at.before(ahead).expect("the other clock is ahead");
        loop {
            let (plain, restored) = (self.plain.poll_output(), self.restored.poll_output());
            let restored = match restored {
                Some(Output::Fired(deadline, due)) => Some(Output::Fired(deadline, back(due))),
                output => output,
            };
            assert_eq!(plain, restored);
            if plain.is_none() {
                break;
            }
        }
        assert_eq!(self.plain.phase(), self.restored.phase());
        let deadlines = |session: &SessionHarness<LogRef>| session.deadlines().collect::<Vec<_>>();
        let shifted = deadlines(&self.restored).into_iter().map(|(at, which)| (back(at), which));
        assert_eq!(deadlines(&self.plain), shifted.collect::<Vec<_>>());
        assert_eq!(self.plain.opened_at(), back(self.restored.opened_at()));
        assert_eq!(self.plain.last_received_at(), back(self.restored.last_received_at()));
        let (plain, restored) = (self.plain.outbox(), self.restored.outbox());
        restored.check_invariants();
        let numbers = |outbox: &Outbox<LogRef>| (outbox.seq(), outbox.sent(), outbox.unacked());
        assert_eq!(numbers(plain), numbers(restored));
        assert!(plain.subscriptions().eq(restored.subscriptions()));
        if let Phase::Attached(_) = self.plain.phase() {
            assert_eq!(plain.next_turn(), restored.next_turn());
            assert_eq!(plain.is_stopped(), restored.is_stopped());
        }
    }
}

fn random_attach(rng: &mut SmallRng, connection: u64, seq: u64) -> Attach {
    let kind = match rng.random_range(0..5) {
        0 => ConnectionKind::Events,
        1 | 2 => ConnectionKind::Poll { hold: Duration::from_millis(rng.random_range(0..300)) },
        3 => ConnectionKind::Stream(Heartbeat::Message),
        _ => ConnectionKind::Stream(Heartbeat::Frame),
    };
    Attach {
        connection: ConnectionId(connection),
        kind,
        seq: rng.random_bool(0.6).then_some(seq),
        delivery: if rng.random() { DeliveryMode::AtLeastOnce } else { DeliveryMode::AtMostOnce },
        token_expires: None,
        entropy: rng.random(),
    }
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_nanos((1_000 + ms) * 1_000_000)
}

fn timeouts() -> SessionTimeouts {
    SessionTimeouts {
        ping_interval: Duration::from_secs(25),
        pong_timeout: Duration::from_secs(10),
        poll_hold: Duration::from_secs(30),
        poll_gap: Duration::from_secs(10),
        reconnect_window: Duration::from_secs(120),
        idle: None,
        lifetime: None,
    }
}

/// A session that has moved, with five messages in its ring after three acknowledged ones.
fn moved() -> (SessionHarness, SessionRecord) {
    let attach = Attach {
        connection: ConnectionId(1),
        kind: ConnectionKind::Stream(Heartbeat::Frame),
        seq: None,
        delivery: DeliveryMode::AtLeastOnce,
        token_expires: None,
        entropy: 0,
    };
    let mut session = SessionHarness::open(at(0), &timeouts(), Outbox::new(16), attach);
    session.outbox_mut().subscribe((), 10, false);
    let turn = session.outbox().next_turn().expect("the subscription is ready");
    session.outbox_mut().take(turn, outbox::LogBounds { first: 1, last: 18 }, 100, |_| &[]);
    session.handle(at(0), Input::Connection(ConnectionId(1), ConnectionInput::Ack { seq: 3 }));
    assert_eq!(session.snapshot(), None, "the session has not moved");
    session.handle(at(20_000), Input::Move);
    let record = session.snapshot().expect("the session has moved");
    (session, record)
}

#[test]
fn a_moved_session_closes_its_connection_and_has_the_full_window() {
    let (mut session, record) = moved();
    let outputs: Vec<_> = std::iter::from_fn(|| session.poll_output()).collect();
    let close = Output::Close(ConnectionId(1), CloseCode::Moved);
    assert!(outputs.contains(&close), "{outputs:?}");
    let event = LifecycleEvent { number: 2, transition: Transition::Suspended(SuspendReason::Moved) };
    assert_eq!(outputs.last(), Some(&Output::Event(event)));
    assert_eq!(record.reconnect_ns, 120_000_000_000);
    assert_eq!(record.outbox.ring, [RingRun { slot: 0, offset: 14, count: 5, span: 0 }]);
}

/// Returns a session with one connection of this kind.
fn attached(kind: ConnectionKind) -> SessionHarness {
    let attach = Attach {
        connection: ConnectionId(1),
        kind,
        seq: None,
        delivery: DeliveryMode::AtLeastOnce,
        token_expires: None,
        entropy: 0,
    };
    let mut session = SessionHarness::open(at(0), &timeouts(), Outbox::new(16), attach);
    while session.poll_output().is_some() {}
    session
}

const STREAM: ConnectionKind = ConnectionKind::Stream(Heartbeat::Frame);
const POLL: ConnectionKind = ConnectionKind::Poll { hold: Duration::from_secs(30) };

/// The other process reports the new connection in the same way as this one would.
#[test]
fn handed_over_session_emits_no_event_until_its_client_is_attached() {
    let close = Output::Close(ConnectionId(1), CloseCode::Replaced);
    let superseded = Output::Superseded(ConnectionId(1));
    let taken_over = Some(Transition::Resumed(ResumeKind::TakeOver));
    for (before, next, released, event) in [
        (STREAM, STREAM, close, taken_over),
        (STREAM, POLL, close, taken_over),
        (POLL, STREAM, superseded, taken_over),
        (POLL, POLL, superseded, None),
    ] {
        let mut session = attached(before);
        session.handle(at(10_000), Input::HandOver);
        assert_eq!((session.poll_output(), session.poll_output()), (Some(released), None));
        let record = session.snapshot().expect("the session has moved");
        assert_eq!(record.reconnect_ns, 120_000_000_000);
        let restore = || {
            let outbox =
                Outbox::restore(&record.outbox, 16, |_, _, _| Some(())).expect("the record is valid");
            SessionHarness::restore_attached(at(10_500), &timeouts(), &record, outbox)
                .expect("the record is valid")
        };
        let mut restored = restore();
        assert_eq!(restored.phase(), Phase::BetweenPolls);
        let attach = Attach {
            connection: ConnectionId(2),
            kind: next,
            seq: Some(0),
            delivery: DeliveryMode::AtLeastOnce,
            token_expires: None,
            entropy: 0,
        };
        restored.handle(at(11_000), Input::Attach(attach));
        let event = event.map(|transition| Output::Event(LifecycleEvent { number: 2, transition }));
        assert_eq!(restored.poll_output(), event, "{before:?} {next:?}");
        assert_eq!(restored.phase(), Phase::Attached(ConnectionId(2)));

        let mut restored = restore();
        restored.handle(at(11_000), Input::Detach(SuspendReason::ServerLost));
        let transition = Transition::Suspended(SuspendReason::ServerLost);
        assert_eq!(restored.poll_output(), Some(Output::Event(LifecycleEvent { number: 2, transition })));
        assert_eq!(restored.next_deadline(), Some((at(130_500), Deadline::Reconnect)));
    }
}

#[test]
fn fenced_session_closes_its_connection_and_emits_no_event() {
    for kind in [STREAM, POLL] {
        let mut session = attached(kind);
        session.handle(at(1), Input::Fence(CloseCode::Replaced));
        let close = Output::Close(ConnectionId(1), CloseCode::Replaced);
        assert_eq!((session.poll_output(), session.poll_output()), (Some(close), None));
        session.handle(at(1_000_000), Input::Close(CloseReason::Kicked));
        session.handle_timeout(at(2_000_000));
        assert_eq!((session.poll_output(), session.next_deadline()), (None, None));
    }
}

#[test]
fn only_a_moved_session_ends_if_it_cannot_be_saved() {
    let (mut session, _) = moved();
    while session.poll_output().is_some() {}
    for expected in [Some(Transition::Closed(CloseReason::Draining)), None] {
        session.handle(at(20_001), Input::MoveFailed);
        let output = expected.map(|transition| Output::Event(LifecycleEvent { number: 3, transition }));
        assert_eq!(session.poll_output(), output);
    }
}

#[test]
fn the_new_process_determines_the_lifetime() {
    let (_, record) = moved();
    for (lifetime, left) in [(Some(30), Some(10)), (None, None)] {
        let timeouts = SessionTimeouts { lifetime: lifetime.map(Duration::from_secs), ..timeouts() };
        let outbox = Outbox::restore(&record.outbox, 16, |_, _, _| Some(())).expect("the record is valid");
        let session =
            SessionHarness::restore(at(9_000_000), &timeouts, &record, outbox).expect("the record is valid");
        let due = session.deadlines().find(|(_, deadline)| *deadline == Deadline::Lifetime);
        assert_eq!(due.map(|(due, _)| due), left.map(|left| at(9_000_000 + left * 1_000)));
    }
}

#[test]
fn a_shorter_ring_evicts_the_oldest() {
    let (_, record) = moved();
    let restored = Outbox::restore(&record.outbox, 2, |_, _, _| Some(())).expect("the record is valid");
    restored.check_invariants();
    assert_eq!((restored.seq(), restored.unacked()), (8, 2));
}

type CorruptRecord = fn(&mut OutboxRecord);

#[test]
fn inconsistent_records_are_rejected() {
    let (_, good) = moved();
    let broken: [(&str, CorruptRecord); 12] = [
        ("too many seqs", |it| it.ring.push(RingRun { count: u64::MAX, ..it.ring[0] })),
        ("too many seqs", |it| it.dropped = u64::MAX - 5),
        ("a ring entry without a subscription", |it| it.ring[0].slot = 1),
        ("a ring entry without a subscription", |it| it.subscriptions[0] = None),
        ("a ring entry beyond its cursor", |it| it.ring[0].count = 6),
        ("a ring entry beyond its cursor", |it| it.ring[0].offset = u64::MAX),
        ("a ring entry beyond its cursor", |it| it.ring[0].span = 3),
        ("a ring entry before the preceding one", |it| it.ring[0].offset = 13),
        ("a seq was acknowledged that was not sent", |it| it.sent = 9),
        ("a seq was acknowledged that was not sent", |it| it.acknowledged = 4),
        ("a turn without a live subscription", |it| it.ready = vec![7]),
        ("an evicted entry was not sent", |it| {
            it.subscriptions[0].as_mut().expect("the slot is in use").evicted = Some((4, 13));
        }),
    ];
    for (expected, corrupt) in broken {
        let mut record = good.outbox.clone();
        corrupt(&mut record);
        let error = Outbox::<()>::restore(&record, 16, |_, _, _| Some(())).expect_err(expected);
        assert_eq!(error, BadRecord(expected), "{record:?}");
    }
    // No memory is allocated for entries beyond the capacity.
    let mut long = good.outbox.clone();
    long.ring[0].count = 1 << 60;
    long.subscriptions[0].as_mut().expect("the slot is in use").cursor = 1 << 61;
    let restored = Outbox::restore(&long, 16, |_, _, _| Some(())).expect("the record is consistent");
    assert_eq!(restored.unacked(), 16);
    let error = Outbox::<()>::restore(&good.outbox, 16, |_, _, _| None).expect_err("no such log");
    assert_eq!(error.to_string(), "unknown log");
    let bad = SessionRecord { carrier: 99, ..good };
    let error = Session::<()>::restore(at(0), &bad, Outbox::new(1));
    assert_eq!(error.expect_err("unknown kind of connection").to_string(), "unknown kind of connection");
}

/// A later version may add fields.
#[test]
fn unknown_fields_are_skipped() {
    #[derive(minicbor::Encode)]
    #[cbor(array)]
    struct Longer {
        #[n(0)]
        slot: u32,
        #[n(1)]
        offset: u64,
        #[n(2)]
        count: u64,
        #[n(3)]
        span: u32,
        #[n(4)]
        more: Vec<&'static str>,
    }
    let longer = Longer { slot: 1, offset: 2, count: 3, span: 0, more: vec!["of", "all", "kinds"] };
    let bytes = minicbor::to_vec([longer]).expect("writing to memory cannot fail");
    let read: Vec<RingRun> = minicbor::decode(&bytes).expect("the known fields are decoded");
    assert_eq!(read, [RingRun { slot: 1, offset: 2, count: 3, span: 0 }]);
}
