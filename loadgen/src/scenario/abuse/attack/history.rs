//! Continuously publishes large messages to new channels, and opens a new session when a session may send no
//! more commands.
//!
//! The attack costs one byte for each byte that the server keeps. A server should limit the total size of all
//! logs. When the limit is reached, the creator of the logs with the most bytes should lose the oldest
//! messages, and the history of other channels should stay intact: see `history_received`.

use std::rc::Rc;

use super::{Attacker, BATCH_COMMANDS, CommandBatch};

/// Length of the data. With the rest of the command it stays just below the longest message that a server
/// accepts by default.
const DATA_BYTES: usize = 60_000;
/// Number of channels per session: enough that no channel reaches its own limit.
const CHANNELS: u32 = 10;

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    let data = "x".repeat(DATA_BYTES);
    for round in 0_u64.. {
        let Some(mut session) = attacker.open(None).await else { continue };
        let publish = |id: u32| {
            let channel = format!("abuse-{index}-{round}-{}", id % CHANNELS);
            format!(r#"{{"id":{id},"publish":{{"channel":"{channel}","data":"{data}"}}}}"#)
        };
        attacker.send_batch(&mut session, &CommandBatch::of((1..=BATCH_COMMANDS).map(publish))).await;
        session.close().await;
    }
}
