//! Retries for a resource that another process is using. They are needed before the wheel is running.

use std::thread;
use std::time::Duration;

/// Interval between attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Limits how long to retry.
#[derive(Debug)]
pub struct Retry<F> {
    max_wait: Duration,
    waited: Duration,
    is_cancelled: F,
}

impl<F: FnMut() -> bool> Retry<F> {
    /// Allows retries for `max_wait`, or until `is_cancelled` returns `true`.
    pub fn new(max_wait: Duration, is_cancelled: F) -> Self {
        Self { max_wait, waited: Duration::ZERO, is_cancelled }
    }

    /// Waits until the next attempt is due. Returns `false` if the time is over or the retries were
    /// cancelled. Before the first wait, calls `report` with the longest possible total wait.
    pub fn wait(&mut self, report: impl FnOnce(Duration)) -> bool {
        if self.waited >= self.max_wait || (self.is_cancelled)() {
            return false;
        }
        if self.waited.is_zero() {
            report(self.max_wait);
        }
        #[expect(clippy::disallowed_methods, reason = "there is no wheel yet")]
        thread::sleep(RETRY_INTERVAL);
        self.waited += RETRY_INTERVAL;
        true
    }
}
