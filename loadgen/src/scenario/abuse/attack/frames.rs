//! Floods the server with frames that ask it for next to nothing: acknowledgements, pongs, pings, and empty pieces of a message that
//! never ends, as fast as each socket takes them.
//!
//! The attacker pays 6 bytes a frame (an acknowledgement: 23). No command is among them, so a limit of commands does not see them. A
//! server should read no more than so many frames of a connection a second, without closing it (a client may have reasons), and give
//! others their turn after a few of them, however many have arrived.

use std::rc::Rc;

use super::Attacker;
use crate::args::FrameKind;
use crate::transport::websocket::{Opcode, write_fragment, write_frame};

/// What goes out at once.
const CHUNK_BYTES: usize = 16 * 1024;

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    let kind = attacker.orders.kind.unwrap_or_else(|| FrameKind::in_turn(index, attacker.target()));
    let (mut frames, mut count) = (Vec::new(), 0);
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
        if kind == FrameKind::Fragments {
            let mut first = Vec::new();
            write_fragment(&mut first, Opcode::Text, &[]);
            attacker.sent(first.len(), 1);
            session.connection.queue(&first);
        }
        attacker.flood(&mut session, &frames, count).await;
    }
}
