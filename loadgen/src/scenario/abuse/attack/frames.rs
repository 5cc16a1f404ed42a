//! Floods the server with frames that are cheap to send: acknowledgements, pongs, pings, and empty fragments
//! of a message that never ends, as fast as each socket accepts them.
//!
//! The attack costs 6 bytes per frame (23 for an acknowledgement). The frames are not commands, so a limit on
//! commands does not apply. A server should limit the number of frames that it reads from a connection per
//! second, without closing the connection, because a client may have legitimate reasons for sending them. The
//! server should serve other connections after a few frames, no matter how many have arrived.

use std::rc::Rc;

use super::Attacker;
use crate::args::FrameKind;
use crate::transport::websocket::{Opcode, write_fragment, write_frame};

/// Number of bytes sent at a time.
const CHUNK_BYTES: usize = 16 * 1024;

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    let kind = attacker.parameters.kind.unwrap_or_else(|| FrameKind::rotating(index, attacker.target()));
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
            attacker.count_sent(first.len(), 1);
            session.connection.queue(&first);
        }
        attacker.flood(&mut session, &frames, count).await;
    }
}
