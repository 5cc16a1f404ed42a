//! Publishes far more than a session may. Every other connection goes on regardless of what it is answered; the others come back to the
//! same session all the time, and send a hundred publishes at once whenever they have.
//!
//! The attacker pays 60 bytes a publish. A server should count a session's commands whichever connection they come on, refuse those
//! above the limit cheaply, and close a client that goes on.

use std::rc::Rc;

use super::{Attacker, BATCH, Batch};

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    let publish = |id| format!(r#"{{"id":{id},"publish":{{"channel":"abuse-{index}","data":0}}}}"#);
    let batch = Batch::of((1..=BATCH).map(publish));
    if index.is_multiple_of(2) { go_on(&attacker, &batch).await } else { come_back(&attacker, &batch).await }
}

async fn go_on(attacker: &Attacker, batch: &Batch) -> ! {
    loop {
        let Some(mut session) = attacker.open(None).await else { continue };
        attacker.flood(&mut session, &batch.frames, batch.commands.into()).await;
    }
}

async fn come_back(attacker: &Attacker, batch: &Batch) -> ! {
    let mut ticket = None;
    loop {
        let Some(mut session) = attacker.open(ticket.as_ref()).await else {
            ticket = None;
            continue;
        };
        attacker.ask(&mut session, batch).await;
        ticket = Some(session.greeting.ticket.clone());
    }
}
