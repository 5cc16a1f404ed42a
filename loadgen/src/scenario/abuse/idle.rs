//! Waits until a server has done with an attack.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::process::Process;

const LOOK: Duration = Duration::from_secs(1);
/// Of a look. The kernel counts in hundredths of a second.
const IDLE: Duration = Duration::from_millis(50);
/// A server that computes for longer is not waited for.
const LONGEST: Duration = Duration::from_secs(60);

/// Returns when the process has computed next to nothing for a second, or is gone.
pub(super) async fn wait(pid: u32) {
    let Ok(process) = Process::open(pid) else { return };
    let start = Instant::now();
    let mut cpu = None;
    while start.elapsed() < LONGEST {
        let Ok(reading) = process.reading() else { return };
        if cpu.replace(reading.cpu).is_some_and(|before| reading.cpu.saturating_sub(before) < IDLE) {
            return;
        }
        sleep(LOOK).await;
    }
}
