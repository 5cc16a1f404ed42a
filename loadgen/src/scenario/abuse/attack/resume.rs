//! Comes back to its own sessions in ways that a client never would. Every other connection asks to resume after a message that was never
//! sent, and keeps both connections; the others take their own session over, again and again.
//!
//! The attacker pays connections. A server that answers the first with a new session must not count both under one permit: an `open_peak`
//! far beyond its limit of connections shows that it does. (One that is being replaced counts until it has been.)

use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;

use super::{Attacker, Session};
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
        let Some(first) = attacker.open(None).await else { continue };
        let ticket = Ticket { seq: TOO_HIGH, ..first.greeting.ticket.clone() };
        let Some(second) = attacker.open(Some(&ticket)).await else { continue };
        answered(attacker, &second);
        let both = async { tokio::join!(keep(attacker, first), keep(attacker, second)) };
        // Nothing is to come.
        let _ = timeout(KEEP, both).await;
    }
}

/// Lets go of a session as soon as it has ended.
async fn keep(attacker: &Attacker, mut session: Session) {
    attacker.listen(&mut session).await;
}

async fn take_over(attacker: &Attacker) -> ! {
    let mut held: Option<Session> = None;
    loop {
        let ticket = held.as_ref().map(|held| held.greeting.ticket.clone());
        // The one that is replaced is there until the next one is.
        held = attacker.open(ticket.as_ref()).await;
        if let Some(session) = &held {
            answered(attacker, session);
        }
    }
}

fn answered(attacker: &Attacker, session: &Session) {
    attacker.sent(0, 1);
    attacker.answer(if session.greeting.recovered { "recovered" } else { "new_session" });
}
