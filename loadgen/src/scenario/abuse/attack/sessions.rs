//! Attacks that open and resume sessions.

use std::rc::Rc;
use std::time::Duration;

use encke_client::Ticket;
use tokio::time::timeout;

use super::{AttackSession, Attacker};

/// Seq that no session has reached.
const UNREACHED_SEQ: u64 = 1_000_000_000;
/// How long `resume` keeps both connections.
const KEEP_TIME: Duration = Duration::from_secs(1);

/// Opens sessions and disconnects right after the hello, so that each session waits for a client that never
/// returns.
///
/// The attack costs one connection per session, which is closed immediately. A server keeps a session for its
/// reconnect window, so it should limit the number of sessions. When the limit is reached, only the client
/// with the most suspended sessions should lose one.
pub(super) async fn suspended(attacker: Rc<Attacker>, _: u32) {
    loop {
        if attacker.open(None).await.is_some() {
            attacker.costs.count_sent(0, 1);
            attacker.costs.count_answer("session");
        }
    }
}

/// Resumes its own sessions in ways that a client never would. Half of the attackers resume from a message
/// that was never sent, and keep the old connection open; the others take over their own session again and
/// again.
///
/// The attack costs connections. For a message that was never sent, the server opens a new session. If
/// `open_peak` is far above the server's connection limit, the server wrongly counts the old and the new
/// connection under one permit. (A connection that is being replaced counts until it is closed.)
pub(super) async fn resume(attacker: Rc<Attacker>, index: u32) {
    if index.is_multiple_of(2) { resume_ahead(&attacker).await } else { take_over(&attacker).await }
}

async fn resume_ahead(attacker: &Attacker) -> ! {
    loop {
        let Some(mut first) = attacker.open(None).await else { continue };
        let ticket = Ticket { seq: UNREACHED_SEQ, ..first.greeting.ticket.clone() };
        let Some(mut second) = attacker.open(Some(&ticket)).await else { continue };
        count_greeting(attacker, &second);
        let both =
            async { tokio::join!(attacker.read_to_end(&mut first), attacker.read_to_end(&mut second)) };
        // This usually ends with the timeout: neither connection receives anything.
        let _ = timeout(KEEP_TIME, both).await;
    }
}

async fn take_over(attacker: &Attacker) -> ! {
    let mut held: Option<AttackSession> = None;
    loop {
        let ticket = held.as_ref().map(|held| held.greeting.ticket.clone());
        // Keep the previous connection until the next one is open.
        held = attacker.open(ticket.as_ref()).await;
        if let Some(session) = &held {
            count_greeting(attacker, session);
        }
    }
}

fn count_greeting(attacker: &Attacker, session: &AttackSession) {
    attacker.costs.count_sent(0, 1);
    attacker.costs.count_answer(if session.greeting.recovered { "recovered" } else { "new_session" });
}
