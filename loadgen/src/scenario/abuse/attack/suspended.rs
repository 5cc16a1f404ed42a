//! Opens sessions and leaves each as soon as it has been greeted, so that all of them wait for a client that never comes back.
//!
//! The attacker pays one connection a session, and holds none. A server keeps a session for its reconnect window: it should have a limit
//! of sessions, and when it is reached, whoever has most that wait should lose one, and nobody else.

use std::rc::Rc;

use super::Attacker;

pub(super) async fn run(attacker: Rc<Attacker>, _: u32) {
    loop {
        if attacker.open(None).await.is_some() {
            attacker.sent(0, 1);
            attacker.answer("session");
        }
    }
}
