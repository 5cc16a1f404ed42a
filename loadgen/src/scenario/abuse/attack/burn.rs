//! Spends CPU time, and sends nothing. Where attacker and server share a core, whoever computes delays the server, too: what the healthy
//! session measures beside this is not the server's fault.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::Attacker;

/// Between two looks at whether it is time to stop.
const STINT: Duration = Duration::from_millis(1);

pub(super) async fn run(_: Rc<Attacker>, _: u32) {
    loop {
        let start = Instant::now();
        while start.elapsed() < STINT {
            std::hint::spin_loop();
        }
        yield_now().await;
    }
}
