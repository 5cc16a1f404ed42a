//! Connects and sends nothing, and reconnects whenever the server closes the connection.
//!
//! The attack costs the attacker one socket per connection. A server should limit the number of connections
//! without a session. At the limit, it should close the oldest connection of the client that has the most of
//! them, and continue to admit other clients.

use std::rc::Rc;

use super::Attacker;
use crate::transport::ResponseHead;

pub(super) async fn run(attacker: Rc<Attacker>, _: u32) {
    loop {
        let Some(mut stream) = attacker.connect().await else { continue };
        attacker.count_response(ResponseHead::read(&mut stream).await);
    }
}
