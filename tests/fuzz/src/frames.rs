//! Fuzzes a WebSocket connection after its upgrade. Regardless of how a client's bytes are split, the server
//! must answer them as RFC 6455 and the dialect require, and release all resources at the end.

use std::sync::LazyLock;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::json::{Reply, ReplyOutcome, ServerMessage};
use encke_server::config::{Config, Settings};
use encke_server::testing::simulation::ServerTotals;
use tungstenite::protocol::frame::FrameSocket;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use crate::expected::{Answer, ExpectedAnswers, MAX_MESSAGE, ReceivedAnswers};
use crate::memory_socket::MemorySocket;
use crate::pieces::cut;
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
pub(crate) fn run(input: &[u8]) {
    let Some((flags, rest)) = input.split_first() else { return };
    let stream = if flags & FRAME_LIST == 0 { rest.to_vec() } else { encode_frames(rest) };
    let late = (flags & LATE_ENGINE != 0).then_some(Duration::from_millis(20));
    let mut simulated = ServerSimulation::new(CONFIG.clone(), late);
    let wire = MemorySocket::default();
    let address = [127, 0, 0, 1].into();
    let query = if flags & HEARTBEAT_MESSAGES == 0 { "" } else { "heartbeat=message" };
    let arrival = simulated.server.number_request();
    let task = simulated.server.serve_websocket(wire.clone(), address, query, arrival);
    simulated.spawn(task);
    for piece in cut(&stream, flags & !(FRAME_LIST | HEARTBEAT_MESSAGES | LATE_ENGINE)) {
        wire.client_sends(piece);
        simulated.run_until_idle();
    }
    simulated.advance(ANSWER_TIME);
    let (bytes, has_ended) = wire.received();
    ExpectedAnswers::to(&stream).check(received(&bytes, has_ended), late.is_some());
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

/// Encodes a client's frame. The mask is zero, so that corpus files are readable.
pub(crate) fn write(first: u8, payload: &[u8], out: &mut Vec<u8>) {
    out.extend([first, 0x80 | 127]);
    out.extend((payload.len() as u64).to_be_bytes());
    out.extend([0; 4]);
    out.extend(payload);
}

/// Decodes what the server has sent, and checks its form.
fn received(bytes: &[u8], has_ended: bool) -> ReceivedAnswers {
    let mut frames = FrameSocket::new(bytes);
    let (mut received, mut seq) = (ReceivedAnswers::default(), 0);
    while let Some(frame) = frames.read(None).expect("frames are valid") {
        assert_eq!(received.close, None, "a frame after the Close frame");
        let (header, payload) = (frame.header(), frame.payload());
        assert!(header.is_final && header.mask.is_none() && !(header.rsv1 || header.rsv2 || header.rsv3));
        match header.opcode {
            OpCode::Data(Data::Text) => match serde_json::from_slice(payload).expect("the server sends JSON")
            {
                ServerMessage::Hello(_) => assert_eq!(seq, 0),
                ServerMessage::Reply(Reply { id, outcome }) => {
                    let is_error = matches!(outcome, ReplyOutcome::Error(_));
                    match id {
                        Some(id) => received.answers.push(Answer::Reply { id, is_error }),
                        None => received.errors_without_id += usize::from(is_error),
                    }
                    assert!(is_error || id.is_some(), "a confirmation without an id");
                }
                ServerMessage::Message(message) => seq = next(seq, message.seq),
                ServerMessage::Gap(gap) => seq = next(seq, gap.seq),
                // The server sends a ping when half of the replay ring is unacknowledged.
                ServerMessage::Ping(ping) => assert_eq!(ping.seq, seq),
                other => panic!("unexpected message: {other:?}"),
            },
            OpCode::Control(Control::Pong) => received.answers.push(Answer::Pong(payload.to_vec())),
            OpCode::Control(Control::Ping) => assert_eq!(payload[..], u64::to_be_bytes(seq)),
            OpCode::Control(Control::Close) => {
                let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
                received.close = Some(code.and_then(CloseCode::from_repr));
            }
            opcode => panic!("unexpected opcode {opcode}"),
        }
    }
    let (_, rest) = frames.into_inner();
    assert!(rest.is_empty(), "incomplete frame: {rest:?}");
    assert_eq!(has_ended, received.close.is_some(), "the stream must end with a Close frame");
    received
}

fn next(last: u64, seq: u64) -> u64 {
    assert_eq!(seq, last + 1, "a seq was skipped");
    seq
}
