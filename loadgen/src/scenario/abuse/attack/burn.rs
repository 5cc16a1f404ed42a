//! Uses CPU time, and sends nothing. If attacker and server share a core, this delays the server too, so any
//! delay that the healthy session measures during this attack is not the server's fault.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::Attacker;

/// How long to spin before checking whether to stop.
const SPIN_TIME: Duration = Duration::from_millis(1);

pub(super) async fn run(_: Rc<Attacker>, _: u32) {
    loop {
        let start = Instant::now();
        while start.elapsed() < SPIN_TIME {
            std::hint::spin_loop();
        }
        yield_now().await;
    }
}
