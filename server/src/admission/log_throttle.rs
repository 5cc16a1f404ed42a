use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use encke_core::Timestamp;

/// Lets one log line pass a second, so that nobody can fill a disk from outside.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle {
    /// When the next may pass, in nanoseconds.
    next_at: AtomicU64,
    left_out: AtomicU64,
}

impl LogThrottle {
    const INTERVAL: Duration = Duration::from_secs(1);

    /// Whether a line may be logged now, and if so, how many were left out since the last.
    pub(crate) fn pass(&self, now: Timestamp) -> Option<u64> {
        let next_at = self.next_at.load(Ordering::Relaxed);
        let then = (now + Self::INTERVAL).as_nanos();
        let may = now.as_nanos() >= next_at
            && self.next_at.compare_exchange(next_at, then, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if may {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
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
