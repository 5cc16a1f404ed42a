//! Comes back to its own sessions in ways that a client never would. Every other connection asks to resume after a message that was never
//! sent, and keeps both connections; the others take their own session over, again and again.
//!
//! The attacker pays connections. A server that answers the first with a new session must not count both under one permit: `open_peak`
//! beyond the server's limit of connections shows that it does.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;

use super::Attacker;
use crate::client::Ticket;

/// No session has come so far.
const TOO_HIGH: u64 = 1_000_000_000;
/// How long both connections are kept.
const KEEP: Duration = Duration::from_secs(1);

pub(super) async fn run(attacker: Rc<Attacker>, index: u32) {
    if index.is_multiple_of(2) { resume_ahead(&attacker).await } else { take_over(&attacker).await }
}

async fn resume_ahead(attacker: &Attacker) -> ! {
    loop {
        let Some(mut first) = attacker.open(None).await else { continue };
        let ticket = Ticket { seq: TOO_HIGH, ..first.greeting.ticket.clone() };
        if let Some(mut second) = attacker.open(Some(&ticket)).await {
            attacker.sent(0, 1);
            attacker.answer(if second.greeting.recovered { "recovered" } else { "new_session" });
            let both = async { tokio::join!(attacker.listen(&mut first), attacker.listen(&mut second)) };
            // Nothing is to come.
            let _ = timeout(KEEP, both).await;
            second.vanish();
        }
        first.vanish();
    }
}

async fn take_over(attacker: &Attacker) -> ! {
    let mut held = None;
    loop {
        let ticket = held.as_ref().map(|held: &super::Session| held.greeting.ticket.clone());
        let next = attacker.open(ticket.as_ref()).await;
        if let Some(next) = &next {
            attacker.sent(0, 1);
            attacker.answer(if next.greeting.recovered { "recovered" } else { "new_session" });
        }
        if let Some(last) = std::mem::replace(&mut held, next) {
            last.vanish();
        }
    }
}
