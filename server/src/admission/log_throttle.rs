use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use encke_core::Timestamp;

/// Lets one log line pass a second, or in another time, so that nobody can fill a disk from outside.
#[derive(Debug)]
pub(crate) struct LogThrottle {
    interval: Duration,
    /// When the next may pass, in nanoseconds.
    next_at: AtomicU64,
    left_out: AtomicU64,
}

impl LogThrottle {
    pub(crate) fn once_in(interval: Duration) -> Self {
        Self { interval, next_at: AtomicU64::default(), left_out: AtomicU64::default() }
    }

    /// Whether a line may be logged now, and if so, how many were left out since the last.
    pub(crate) fn pass(&self, now: Timestamp) -> Option<u64> {
        let next_at = self.next_at.load(Ordering::Relaxed);
        let then = (now + self.interval).as_nanos();
        let may = now.as_nanos() >= next_at
            && self.next_at.compare_exchange(next_at, then, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if may {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

impl Default for LogThrottle {
    fn default() -> Self {
        Self::once_in(Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_a_second_and_tells_how_many_did_not() {
        let throttle = LogThrottle::default();
        let at = |millis: u64| Timestamp::from_nanos(millis * 1_000_000);
        let passed = [0, 1, 999, 1001, 1002, 5000, 6001].map(|millis| throttle.pass(at(millis)));
        assert_eq!(passed, [Some(0), None, None, Some(2), None, Some(1), Some(0)]);
    }
}
