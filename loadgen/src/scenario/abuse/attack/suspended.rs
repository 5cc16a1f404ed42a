//! Opens sessions and disconnects right after the hello, so that each session waits for a client that never
//! returns.
//!
//! The attack costs one connection per session, which is closed immediately. A server keeps a session for its
//! reconnect window, so it should limit the number of sessions. When the limit is reached, only the client
//! with the most suspended sessions should lose one.

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
