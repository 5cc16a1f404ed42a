//! Does nothing, to show what the healthy session measures without an attack.

use std::future::pending;
use std::rc::Rc;

use super::Attacker;

pub(super) async fn run(_: Rc<Attacker>, _: u32) {
    pending().await
}
