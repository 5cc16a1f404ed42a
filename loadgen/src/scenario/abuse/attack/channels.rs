//! Creates as many channels as possible: continuously publishes or subscribes to new names, and opens a new
//! session when a session may send no more commands.
//!
//! The attack costs 60 bytes per channel, and a connection per hundred channels. A server should limit the
//! number of channels. When the limit is reached, the creator of the most channels should lose some of them,
//! and a new client should still be able to create one.

use std::rc::Rc;

use super::{Attacker, BATCH_COMMANDS, CommandBatch};

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    for round in 0_u64.. {
        let Some(mut session) = attacker.open(None).await else { continue };
        let command = |id: u32| {
            let channel = format!("abuse-{index}-{round}-{id}");
            if index.is_multiple_of(2) {
                format!(r#"{{"id":{id},"publish":{{"channel":"{channel}","data":0}}}}"#)
            } else {
                format!(r#"{{"id":{id},"subscribe":{{"channel":"{channel}"}}}}"#)
            }
        };
        attacker.send_batch(&mut session, &CommandBatch::of((1..=BATCH_COMMANDS).map(command))).await;
        session.close().await;
    }
}
