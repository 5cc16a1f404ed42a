//! Connects and says nothing, and connects again whenever it is cut.
//!
//! The attacker pays a socket. A server should hold no more than so many connections that have no session yet, cut the oldest of whoever
//! has most, and let others in meanwhile.

use std::rc::Rc;

use super::Attacker;
use crate::transport::ResponseHead;

pub(super) async fn run(attacker: Rc<Attacker>, _: u32) {
    loop {
        let Some(mut stream) = attacker.stream().await else { continue };
        attacker.head(ResponseHead::read(&mut stream).await);
    }
}
