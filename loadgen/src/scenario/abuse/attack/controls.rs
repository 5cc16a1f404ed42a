//! Controls, which send nothing.

use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::Attacker;

/// How long to spin before checking whether to stop.
const SPIN_TIME: Duration = Duration::from_millis(1);

/// Does nothing, to show what the healthy session measures without an attack.
pub(super) async fn none(_: Rc<Attacker>, _: u32) {
    pending().await
}

/// Uses CPU time. If attacker and server share a core, this delays the server too, so any delay that the healthy
/// session measures during this attack is not the server's fault.
pub(super) async fn burn(_: Rc<Attacker>, _: u32) {
    loop {
        let start = Instant::now();
        while start.elapsed() < SPIN_TIME {
            std::hint::spin_loop();
        }
        yield_now().await;
    }
}
