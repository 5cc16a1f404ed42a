//! Publishes large messages to ever new channels, and opens a new session whenever one may send no more commands.
//!
//! The attacker pays every byte that the server keeps. All logs together have a bound; when it is reached, whoever has made the logs that
//! hold most should lose the oldest messages, and the history of others should stay: `history_received` tells.

use std::rc::Rc;

use super::{Attacker, BATCH, Batch};

/// With the rest of the command just below the longest message that a server takes by default.
const DATA_BYTES: usize = 60_000;
/// So that no channel comes near a bound of its own.
const CHANNELS: u32 = 10;

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    let data = "x".repeat(DATA_BYTES);
    for round in 0_u64.. {
        let Some(mut session) = attacker.open(None).await else { continue };
        let publish = |id: u32| {
            let channel = format!("abuse-{index}-{round}-{}", id % CHANNELS);
            format!(r#"{{"id":{id},"publish":{{"channel":"{channel}","data":"{data}"}}}}"#)
        };
        attacker.ask(&mut session, &Batch::of((1..=BATCH).map(publish))).await;
        session.close().await;
    }
}
