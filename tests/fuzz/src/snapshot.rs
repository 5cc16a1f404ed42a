//! Fuzzes snapshots: garbage, valid records that contain garbage, and the record of one session.

use std::time::Duration;

use encke_core::Timestamp;
use encke_core::close::{CloseReason, SuspendReason};
use encke_core::session::outbox::{LogBounds, LogHandle, LogPosition};
use encke_core::session::{
    Attach, ConnectionId, ConnectionInput, ConnectionKind, DeliveryMode, Heartbeat, Input, MAX_OFFSET,
    Outbox, Outputs, Phase, Session, SessionRecord, SessionTimeouts, StepContext,
};
use encke_server::testing::fuzzing::{rewritten_snapshot, snapshot_of};

/// Capacity of the replay ring.
const MAX_UNACKED: usize = 64;

/// Restores a snapshot. The first byte of the input determines the meaning of the rest. `f`: a file. `s`: the
/// record of a session's state machine. Anything else: records, each with a byte for its kind, two for its
/// length, and its payload.
pub(crate) fn run(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    match first {
        b'f' => check_rewriting(rest),
        b's' => check_session_record(rest),
        _ => check_rewriting(&snapshot_of(records(rest))),
    }
}

fn records(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut records = Vec::new();
    while let [kind, high, low, rest @ ..] = bytes {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (payload, rest) = rest.split_at(length);
        records.push((*kind, payload));
        bytes = rest;
    }
    records
}

/// Checks that a snapshot written by the server is complete, even if it was restored from a damaged file of
/// which the server dropped a part.
fn check_rewriting(file: &[u8]) {
    let Some(first) = rewritten_snapshot(file) else { return };
    let second = rewritten_snapshot(&first).expect("the server wrote this snapshot");
    let third = rewritten_snapshot(&second).expect("the server wrote this snapshot");
    assert_eq!(second, third, "rewriting must be deterministic");
}

/// A log identified by a number.
#[derive(Clone, Copy, Debug)]
struct NumberedLog(u64);

impl LogHandle for NumberedLog {
    fn log(&self) -> u64 {
        self.0
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.0 % 2 == other.0 % 2
    }
}

/// Restores a session several times. Each time, a client resumes with a different seq, reads, acknowledges
/// and disconnects.
fn check_session_record(bytes: &[u8]) {
    let Ok(record) = minicbor::decode::<SessionRecord>(bytes) else { return };
    for seq in [Some(0), None, Some(u64::MAX), Some(record.outbox.dropped / 2)] {
        let Some(mut session) = restored(&record) else { return };
        serve(&mut session, seq);
        assert_restorable(&mut session);
    }
}

fn restored(record: &SessionRecord) -> Option<Session<NumberedLog>> {
    let outbox = Outbox::restore(&record.outbox, MAX_UNACKED, |log, _, _| Some(NumberedLog(log))).ok()?;
    assert!(outbox.unacked() <= MAX_UNACKED, "the ring exceeds its capacity");
    Session::restore(now(), record, outbox).ok()
}

const HOUR: Duration = Duration::from_hours(1);

/// Timeouts that are too long to expire during a run.
const TIMEOUTS: SessionTimeouts = SessionTimeouts {
    ping_interval: HOUR,
    pong_timeout: HOUR,
    poll_hold: HOUR,
    poll_gap: HOUR,
    reconnect_window: HOUR,
    idle: None,
    lifetime: None,
};

/// Passes an input to the session, and discards its outputs.
fn handle(session: &mut Session<NumberedLog>, input: Input) {
    let mut outputs = Outputs::new();
    session.handle(&mut StepContext { now: now(), timeouts: &TIMEOUTS, outputs: &mut outputs }, input);
}

fn now() -> Timestamp {
    Timestamp::from_nanos(1 << 50)
}

fn serve(session: &mut Session<NumberedLog>, seq: Option<u64>) {
    let connection = ConnectionId(1);
    let attach = Attach {
        connection,
        kind: ConnectionKind::Stream(Heartbeat::Frame),
        seq,
        delivery: if seq.is_some() { DeliveryMode::AtLeastOnce } else { DeliveryMode::AtMostOnce },
        token_expires: None,
        entropy: 0,
    };
    handle(session, Input::Attach(attach));
    if session.phase() == Phase::Attached(connection) {
        for _ in 0..200 {
            let outbox = session.outbox_mut();
            let Some(turn) = outbox.next_turn() else { break };
            // Simulate a log that has new messages, or has lost some that were to be sent.
            let first = turn.from.saturating_add(turn.from % 3).min(MAX_OFFSET);
            let log = LogBounds { first: first.max(1), last: (first + 5).max(first) };
            outbox.take(turn, log, 3, |_| -> &[LogPosition] { &[] });
            handle(session, Input::Connection(connection, ConnectionInput::Sent));
        }
        let seq = session.outbox().sent();
        handle(session, Input::Connection(connection, ConnectionInput::Ack { seq }));
        let lost = ConnectionInput::Ended(SuspendReason::ConnectionLost);
        handle(session, Input::Connection(connection, lost));
    }
}

/// Asserts that the session's new state can be written and restored as well.
fn assert_restorable(session: &mut Session<NumberedLog>) {
    handle(session, Input::Move);
    let Some(record) = session.snapshot(&TIMEOUTS) else {
        assert!(matches!(session.phase(), Phase::Closed(_)), "{:?}", session.phase());
        return;
    };
    let mut again = restored(&record).expect("a session wrote this record");
    handle(&mut again, Input::Move);
    assert_eq!(again.snapshot(&TIMEOUTS).as_ref(), Some(&record));
    handle(&mut again, Input::Close(CloseReason::Kicked));
}
