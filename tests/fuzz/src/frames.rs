//! A WebSocket behind its upgrade: whatever its client sends, however it is cut, is answered as RFC 6455 and the dialect have it; and
//! nothing is left of it at the end.

use std::sync::LazyLock;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::json::ServerMessage;
use encke_server::config::{Config, Settings};
use encke_server::simulation::ServerTotals;

use crate::expected::{Answers, End, Expected, MAX_MESSAGE};
use crate::pieces::cut;
use crate::rfc6455::{CLOSE, Frame, PING, PONG, TEXT, frames, write};
use crate::simulated::Simulated;
use crate::wire::Wire;

/// Bits of the first byte. The others say how the stream is cut.
const IN_PARTS: u8 = 0x80;
const HEARTBEAT_MESSAGES: u8 = 0x40;
const LATE_ENGINE: u8 = 0x20;

/// Long enough for all that comes faster than `limits.frames_per_second`, and shorter than anything that is asked of the client.
const UNTIL_ANSWERED: Duration = Duration::from_secs(10);
/// Longer than every timeout that follows the end of a connection.
const UNTIL_FORGOTTEN: Duration = Duration::from_secs(5);

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
    Settings { flags, ..Settings::default() }.resolve().expect("these settings are good")
});

/// The first byte says how the stream is cut, and whether the rest of the input is the stream itself or its frames in parts: in each
/// line, the first byte of a frame and its payload.
///
/// # Panics
/// If an invariant does not hold.
pub fn run(input: &[u8]) {
    let Some((flags, rest)) = input.split_first() else { return };
    let stream = if flags & IN_PARTS == 0 { rest.to_vec() } else { of_parts(rest) };
    let late = (flags & LATE_ENGINE != 0).then_some(Duration::from_millis(20));
    let mut simulated = Simulated::new(CONFIG.clone(), late);
    let wire = Wire::default();
    let address = [127, 0, 0, 1].into();
    let query = if flags & HEARTBEAT_MESSAGES == 0 { "" } else { "heartbeat=message" };
    let task = simulated.server.serve_websocket(wire.clone(), address, query);
    simulated.spawn(task);
    for piece in cut(&stream, flags & !(IN_PARTS | HEARTBEAT_MESSAGES | LATE_ENGINE)) {
        wire.client_sends(piece);
        simulated.settle();
    }
    simulated.pass(UNTIL_ANSWERED);
    let (bytes, has_ended) = wire.received();
    check(&Expected::of(&stream), late.is_some(), &bytes, has_ended);
    wire.client_ends();
    simulated.pass(UNTIL_FORGOTTEN);
    assert_eq!(simulated.tasks(), 0, "a connection without a client");
    let held = simulated.server.totals();
    assert_eq!(
        held,
        ServerTotals { timer_entries: held.timer_entries, ..ServerTotals::default() },
        "something is left"
    );
}

fn of_parts(parts: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    for part in parts.split(|byte| *byte == b'\n') {
        if let Some((first, payload)) = part.split_first() {
            write(*first, payload, &mut stream);
        }
    }
    stream
}

/// What the server has sent is what was expected, of an engine that `is_late` or is not.
fn check(expected: &Expected, is_late: bool, bytes: &[u8], has_ended: bool) {
    let (frames, rest) = frames(bytes);
    assert!(rest.is_empty(), "half a frame: {rest:?}");
    let mut answers = Answers::to(&expected.answers, is_late);
    let (mut seq, mut close) = (0, None);
    for (index, Frame { header, payload }) in frames.iter().enumerate() {
        assert!(header.is_final && header.is_plain && header.mask.is_none(), "{header:?}");
        assert_eq!(close, None, "a frame after the Close frame");
        match header.opcode {
            TEXT => {
                match serde_json::from_slice(payload).unwrap_or_else(|error| panic!("{error}: {payload:?}")) {
                    ServerMessage::Hello(_) => assert_eq!(index, 0),
                    ServerMessage::Reply(reply) => answers.replied(&reply),
                    ServerMessage::Message(message) => seq = next(seq, message.seq),
                    ServerMessage::Gap(gap) => seq = next(seq, gap.seq),
                    // Half of what the session remembers is not acknowledged: it asks.
                    ServerMessage::Ping(ping) => assert_eq!(ping.seq, seq),
                    other => panic!("nobody asked for {other:?}"),
                }
            }
            PONG => answers.ponged(payload),
            PING => assert_eq!(payload[..], seq.to_be_bytes()),
            CLOSE => close = Some(payload.first_chunk().map(|code| u16::from_be_bytes(*code))),
            opcode => panic!("an opcode {opcode:#x}"),
        }
    }
    assert_eq!(has_ended, close.is_some(), "the stream ends with a Close frame");
    check_end(expected, &answers, close.map(|code| code.and_then(CloseCode::from_repr)));
}

fn next(last: u64, seq: u64) -> u64 {
    assert_eq!(seq, last + 1, "no seq is left out");
    seq
}

/// `close` is the Close frame, if there was one, and its code, if that is one of ours.
fn check_end(expected: &Expected, answers: &Answers<'_>, close: Option<Option<CloseCode>>) {
    if let Some(first) = expected.may_end_after
        && close == Some(Some(CloseCode::ProtocolError))
    {
        // Nor does an acknowledgement wait for a late engine.
        answers.check_first(first);
        return;
    }
    answers.check_all();
    match expected.end {
        End::Open => assert_eq!(close, None),
        End::Refused(codes) => {
            let code = close.flatten();
            assert!(code.is_some_and(|code| codes.contains(&code)), "{code:?} where {codes:?} is right");
        }
        End::ByClient => assert!(close.is_some()),
        End::ByCommand => assert_eq!(close, Some(Some(CloseCode::Normal))),
    }
}
