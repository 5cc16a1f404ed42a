//! Holds an unfinished message on each connection: every other one announces 64 KiB and sends all but the last 4 of them, the others send
//! small fragments, then one of a byte a second.
//!
//! The attacker pays the bytes that the server holds. They should not take more memory there than was sent, and all unfinished messages
//! together should have a bound.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{interval, timeout};

use super::{Attacker, Session};
use crate::transport::websocket::{Opcode, write_fragment};

const HELD_BYTES: usize = 60 * 1024;
const FRAGMENT_BYTES: usize = 1024;
const BYTE_EVERY: Duration = Duration::from_secs(1);
/// A final text frame, masked with zeros, of 65,536 bytes.
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
        attacker.sent(frames.len(), 1);
        session.connection.queue(&frames);
        drop(frames);
        if index.is_multiple_of(2) {
            attacker.listen(&mut session).await;
        } else {
            go_on(&attacker, &mut session).await;
        }
    }
}

/// Returns when the connection has ended.
async fn go_on(attacker: &Attacker, session: &mut Session) {
    let mut frame = Vec::new();
    write_fragment(&mut frame, Opcode::Continuation, b"x");
    let mut next = interval(BYTE_EVERY);
    loop {
        next.tick().await;
        attacker.sent(frame.len(), 1);
        session.connection.queue(&frame);
        if timeout(BYTE_EVERY, attacker.listen(session)).await.is_ok() {
            return;
        }
    }
}
