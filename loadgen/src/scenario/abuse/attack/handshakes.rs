//! Connects and sends nothing, and reconnects whenever the server closes the connection.
//!
//! The attacker pays a socket. A server should limit the number of connections without a session. At the
//! limit it should close the oldest connection of the client that has most of them, and admit others
//! meanwhile.

use std::rc::Rc;

use super::Attacker;
use crate::transport::ResponseHead;

pub(super) async fn run(attacker: Rc<Attacker>, _: u32) {
    loop {
        let Some(mut stream) = attacker.connect().await else { continue };
        attacker.count_response(ResponseHead::read(&mut stream).await);
    }
}
