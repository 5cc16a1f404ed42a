//! Fuzzes a WebSocket connection after its upgrade. Regardless of how a client's bytes are split, the server
//! must answer them as RFC 6455 and the dialect require, and release all resources at the end.

use std::sync::LazyLock;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::json::ServerMessage;
use encke_server::config::{Config, Settings};
use encke_server::testing::simulation::ServerTotals;

use crate::expected::{AnswerChecker, ExpectedEnd, ExpectedStream, MAX_MESSAGE};
use crate::memory_socket::MemorySocket;
use crate::pieces::cut;
use crate::rfc6455::{CLOSE, PING, PONG, ParsedFrame, TEXT, frames, write};
use crate::simulation::ServerSimulation;

/// Flags in the first byte of the input. The other bits determine how the stream is split.
const FRAME_LIST: u8 = 0x80;
const HEARTBEAT_MESSAGES: u8 = 0x40;
const LATE_ENGINE: u8 = 0x20;

/// How long to wait for answers: long enough for input that exceeds `limits.frames_per_second`, but shorter
/// than every deadline of the client.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// How long to wait for resources to be released: longer than all timeouts that follow the end of a
/// connection.
const CLEANUP_TIME: Duration = Duration::from_secs(5);

static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let flags = [
        "timers.stall_threshold=30s",
        "timers.watchdog=60s",
        "session.ping_interval=25s",
        "session.pong_timeout=20s",
        "session.reconnect_window=1s",
        "session.close_timeout=1s",
        "session.max_unacked=16",
        "channel.history_age=1s",
        "channel.history_messages=8",
        "channel.name_bytes=16",
        "limits.max_subscriptions=3",
        "limits.max_channels=5",
        "limits.commands_per_second=0",
        "limits.frames_per_second=100",
    ];
    let mut flags: Vec<_> = flags.map(str::to_owned).into();
    flags.push(format!("limits.max_message={MAX_MESSAGE}B"));
    Settings { flags, ..Settings::default() }.resolve().expect("the settings are valid")
});

/// Serves a client that sends a stream. The first byte of the input determines how the stream is split, and
/// whether the rest is the stream itself or a list of frames: each line has the first byte of a frame and its
/// payload.
///
/// # Panics
/// If an invariant is violated.
pub fn run(input: &[u8]) {
    let Some((flags, rest)) = input.split_first() else { return };
    let stream = if flags & FRAME_LIST == 0 { rest.to_vec() } else { encode_frames(rest) };
    let late = (flags & LATE_ENGINE != 0).then_some(Duration::from_millis(20));
    let mut simulated = ServerSimulation::new(CONFIG.clone(), late);
    let wire = MemorySocket::default();
    let address = [127, 0, 0, 1].into();
    let query = if flags & HEARTBEAT_MESSAGES == 0 { "" } else { "heartbeat=message" };
    let task = simulated.server.serve_websocket(wire.clone(), address, query);
    simulated.spawn(task);
    for piece in cut(&stream, flags & !(FRAME_LIST | HEARTBEAT_MESSAGES | LATE_ENGINE)) {
        wire.client_sends(piece);
        simulated.run_until_idle();
    }
    simulated.advance(ANSWER_TIME);
    let (bytes, has_ended) = wire.received();
    check(&ExpectedStream::of(&stream), late.is_some(), &bytes, has_ended);
    wire.client_ends();
    simulated.advance(CLEANUP_TIME);
    assert_eq!(simulated.tasks(), 0, "a connection outlived its client");
    let held = simulated.server.totals();
    assert_eq!(
        held,
        ServerTotals { timer_entries: held.timer_entries, ..ServerTotals::default() },
        "resources were not released"
    );
}

fn encode_frames(parts: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    for part in parts.split(|byte| *byte == b'\n') {
        if let Some((first, payload)) = part.split_first() {
            write(*first, payload, &mut stream);
        }
    }
    stream
}

/// Asserts that the server sent the expected answers.
fn check(expected: &ExpectedStream, is_late: bool, bytes: &[u8], has_ended: bool) {
    let (frames, rest) = frames(bytes);
    assert!(rest.is_empty(), "incomplete frame: {rest:?}");
    let mut answers = AnswerChecker::to(&expected.answers, is_late);
    let (mut seq, mut close) = (0, None);
    for (index, ParsedFrame { header, payload }) in frames.iter().enumerate() {
        assert!(header.is_final && header.is_plain && header.mask.is_none(), "{header:?}");
        assert_eq!(close, None, "a frame after the Close frame");
        match header.opcode {
            TEXT => {
                match serde_json::from_slice(payload).unwrap_or_else(|error| panic!("{error}: {payload:?}")) {
                    ServerMessage::Hello(_) => assert_eq!(index, 0),
                    ServerMessage::Reply(reply) => answers.record_reply(&reply),
                    ServerMessage::Message(message) => seq = next(seq, message.seq),
                    ServerMessage::Gap(gap) => seq = next(seq, gap.seq),
                    // The server sends a ping when half of the replay ring is unacknowledged.
                    ServerMessage::Ping(ping) => assert_eq!(ping.seq, seq),
                    other => panic!("unexpected message: {other:?}"),
                }
            }
            PONG => answers.record_pong(payload),
            PING => assert_eq!(payload[..], seq.to_be_bytes()),
            CLOSE => close = Some(payload.first_chunk().map(|code| u16::from_be_bytes(*code))),
            opcode => panic!("unexpected opcode {opcode:#x}"),
        }
    }
    assert_eq!(has_ended, close.is_some(), "the stream must end with a Close frame");
    check_end(expected, &answers, close.map(|code| code.and_then(CloseCode::from_repr)));
}

fn next(last: u64, seq: u64) -> u64 {
    assert_eq!(seq, last + 1, "a seq was skipped");
    seq
}

/// Asserts that the connection ended as expected. `close` is `None` if there was no Close frame, and
/// `Some(None)` if the server never uses its code.
fn check_end(expected: &ExpectedStream, answers: &AnswerChecker<'_>, close: Option<Option<CloseCode>>) {
    if let Some(first) = expected.may_end_after
        && close == Some(Some(CloseCode::ProtocolError))
    {
        // An acknowledgement does not wait for a late engine, so the session may close before the other
        // answers.
        answers.check_first(first);
        return;
    }
    answers.check_all();
    match expected.end {
        ExpectedEnd::Open => assert_eq!(close, None),
        ExpectedEnd::Refused(codes) => {
            let code = close.flatten();
            assert!(code.is_some_and(|code| codes.contains(&code)), "{code:?} instead of one of {codes:?}");
        }
        ExpectedEnd::ByClient => assert!(close.is_some()),
        ExpectedEnd::ByCommand => assert_eq!(close, Some(Some(CloseCode::Normal))),
    }
}
