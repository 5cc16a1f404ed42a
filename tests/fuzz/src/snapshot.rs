//! The file in which sessions wait for the next process: garbage, garbage in records that are whole, and one session's record.

use std::time::Duration;

use encke_core::Timestamp;
use encke_core::close::{CloseReason, SuspendReason};
use encke_core::session::outbox::{LogBounds, LogHandle, LogPosition};
use encke_core::session::{
    Attach, ConnectionId, ConnectionInput, ConnectionKind, DeliveryMode, Heartbeat, Input, MAX_OFFSET,
    Outbox, Outputs, Phase, Session, SessionRecord, SessionTimeouts, StepContext,
};
use encke_server::fuzzing::{rewritten_snapshot, snapshot_of};

/// Seqs that a ring holds here.
const MAX_UNACKED: usize = 64;

/// The first byte says what follows: `f` a file; `s` the record of a session's machine; anything else records, each a byte for its kind, two for its
/// length, and its payload.
///
/// # Panics
/// If what is read cannot be written and read again, or a session cannot take what comes.
pub fn run(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    match first {
        b'f' => go_on_with(rest),
        b's' => take_up(rest),
        _ => go_on_with(&snapshot_of(records(rest))),
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

/// A server may leave some of it out. What it writes is all that it has.
fn go_on_with(file: &[u8]) {
    let Some(first) = rewritten_snapshot(file) else { return };
    let second = rewritten_snapshot(&first).expect("the server has written it");
    let third = rewritten_snapshot(&second).expect("the server has written it");
    assert_eq!(second, third, "it is always the same");
}

/// A log of a number.
#[derive(Clone, Copy, Debug)]
struct Log(u64);

impl LogHandle for Log {
    fn log(&self) -> u64 {
        self.0
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.0 % 2 == other.0 % 2
    }
}

/// Goes on with a session, and has a client come with whatever seq, read, acknowledge and leave.
fn take_up(bytes: &[u8]) {
    let Ok(record) = minicbor::decode::<SessionRecord>(bytes) else { return };
    for (seq, kind) in [
        (Some(0), ConnectionKind::Stream(Heartbeat::Frame)),
        (None, ConnectionKind::Events),
        (Some(u64::MAX), ConnectionKind::Stream(Heartbeat::Message)),
        (Some(record.outbox.dropped / 2), ConnectionKind::Poll { hold: Duration::from_secs(1) }),
    ] {
        let Some(mut session) = restored(&record) else { return };
        serve(&mut session, seq, kind);
        assert_same_again(&mut session);
    }
}

fn restored(record: &SessionRecord) -> Option<Session<Log>> {
    let outbox = Outbox::restore(&record.outbox, MAX_UNACKED, |log, _, _| Some(Log(log))).ok()?;
    assert!(outbox.unacked() <= MAX_UNACKED, "the ring is bounded");
    Session::restore(now(), record, outbox).ok()
}

const HOUR: Duration = Duration::from_hours(1);

/// They do not pass.
const TIMEOUTS: SessionTimeouts = SessionTimeouts {
    ping_interval: HOUR,
    pong_timeout: HOUR,
    poll_hold: HOUR,
    poll_gap: HOUR,
    reconnect_window: HOUR,
    idle: None,
    lifetime: None,
};

/// What is to be done, nobody does.
fn handle(session: &mut Session<Log>, input: Input) {
    let mut outputs = Outputs::new();
    session.handle(&mut StepContext { now: now(), timeouts: &TIMEOUTS, outputs: &mut outputs }, input);
}

fn now() -> Timestamp {
    Timestamp::from_nanos(1 << 50)
}

fn serve(session: &mut Session<Log>, seq: Option<u64>, kind: ConnectionKind) {
    let connection = ConnectionId(1);
    let attach = Attach {
        connection,
        kind,
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
            // Of a log that has something new, or has lost what was to be sent again.
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

/// What it has become can be written down and taken up as well.
fn assert_same_again(session: &mut Session<Log>) {
    handle(session, Input::Move);
    let Some(record) = session.snapshot(&TIMEOUTS) else {
        assert!(matches!(session.phase(), Phase::Closed(_)), "{:?}", session.phase());
        return;
    };
    let mut again = restored(&record).expect("it was written by a session");
    handle(&mut again, Input::Move);
    assert_eq!(again.snapshot(&TIMEOUTS).as_ref(), Some(&record));
    handle(&mut again, Input::Close(CloseReason::Kicked));
}
