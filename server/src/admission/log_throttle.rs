use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use encke_core::Timestamp;

/// Limits a log line to one per second, or per another interval, so that no client can fill the disk.
#[derive(Debug)]
pub(crate) struct LogThrottle {
    interval: Duration,
    /// Earliest time of the next line, in nanoseconds.
    next_at: AtomicU64,
    suppressed: AtomicU64,
}

impl LogThrottle {
    pub(crate) fn with_interval(interval: Duration) -> Self {
        Self { interval, next_at: AtomicU64::default(), suppressed: AtomicU64::default() }
    }

    /// Returns `Some` if a line may be logged now, with the number of lines suppressed since the last one.
    pub(crate) fn pass(&self, now: Timestamp) -> Option<u64> {
        let next_at = self.next_at.load(Ordering::Relaxed);
        let then = (now + self.interval).as_nanos();
        let is_allowed = now.as_nanos() >= next_at
            && self.next_at.compare_exchange(next_at, then, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_allowed {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Whether the interval since the last line has elapsed.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        now.as_nanos() >= self.next_at.load(Ordering::Relaxed)
    }
}

impl Default for LogThrottle {
    fn default() -> Self {
        Self::with_interval(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_second_passes_with_the_number_suppressed() {
        let throttle = LogThrottle::default();
        let at = |millis: u64| Timestamp::from_nanos(millis * 1_000_000);
        let passed = [0, 1, 999, 1001, 1002, 5000, 6001].map(|millis| throttle.pass(at(millis)));
        assert_eq!(passed, [Some(0), None, None, Some(2), None, Some(1), Some(0)]);
    }
}
