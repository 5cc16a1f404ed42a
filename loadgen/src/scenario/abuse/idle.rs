//! Waits until a server has finished processing an attack.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::process::SampledProcess;

const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum CPU time per interval of a server that counts as idle. The kernel counts in hundredths of a
/// second.
const MAX_IDLE_CPU: Duration = Duration::from_millis(50);
/// Maximum time to wait for a server that stays busy.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Returns when the process has used almost no CPU time for a second, or has exited.
pub(super) async fn wait(pid: u32) {
    let Ok(process) = SampledProcess::open(pid) else { return };
    let start = Instant::now();
    let mut cpu = None;
    while start.elapsed() < MAX_WAIT {
        let Ok(reading) = process.reading() else { return };
        if cpu.replace(reading.cpu).is_some_and(|before| reading.cpu.saturating_sub(before) < MAX_IDLE_CPU) {
            return;
        }
        sleep(CHECK_INTERVAL).await;
    }
}
