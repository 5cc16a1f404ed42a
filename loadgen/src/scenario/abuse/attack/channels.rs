//! Makes as many channels as it can: publishes to ever new names, or subscribes to them, and opens a new session whenever one may send
//! no more commands.
//!
//! The attacker pays 60 bytes a channel, and a connection a hundred. A server has a limit of channels; when it is reached, whoever has
//! made most of them should lose some, and a newcomer should get one.

use std::rc::Rc;

use super::{Attacker, BATCH, Batch};

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
        attacker.ask(&mut session, &Batch::of((1..=BATCH).map(command))).await;
        session.close().await;
    }
}
