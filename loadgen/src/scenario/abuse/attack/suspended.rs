//! Opens sessions and disconnects right after the hello, so each of them waits for a client that never
//! returns.
//!
//! The attacker pays one connection per session, and keeps none. A server keeps a session for its reconnect
//! window, so it should have a limit on sessions. When it is reached, the client with most suspended sessions
//! should lose one, and no other client.

use std::rc::Rc;

use super::Attacker;

pub(super) async fn run(attacker: Rc<Attacker>, _: u32) {
    loop {
        if attacker.open(None).await.is_some() {
            attacker.count_sent(0, 1);
            attacker.count_answer("session");
        }
    }
}
