use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use encke_core::Timestamp;

/// Time at the start of a wheel turn, and the length of the stall before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TurnTime {
    pub(crate) now: Timestamp,
    pub(crate) stalled: Duration,
}

/// Arithmetic of the server's clock, separate from reading the machine's. All values are nanoseconds.
#[derive(Debug)]
pub(super) struct ServedTime {
    stall_threshold: u64,
    stolen: AtomicU64,
    limit: AtomicU64,
}

impl ServedTime {
    pub(super) fn new(stall_threshold: Duration) -> Self {
        Self {
            stall_threshold: nanos(stall_threshold),
            stolen: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
        }
    }

    /// Returns the server time. The limit is loaded first (Acquire): a reader that sees a new limit also sees
    /// the time stolen before that limit was set. A reader that sees an old limit is bounded by it, however
    /// late it reads the monotonic clock.
    pub(super) fn read(&self, monotonic: impl FnOnce() -> u64) -> Timestamp {
        let limit = self.limit.load(Ordering::Acquire);
        let stolen = self.stolen.load(Ordering::Relaxed);
        Timestamp::from_nanos(monotonic().saturating_sub(stolen).min(limit))
    }

    pub(super) fn turn(&self, monotonic: u64) -> TurnTime {
        let limit = self.limit.load(Ordering::Relaxed);
        let stolen = self.stolen.load(Ordering::Relaxed);
        let served = monotonic.saturating_sub(stolen);
        let excess = served.saturating_sub(limit);
        if excess > 0 {
            // Until the next plan, the old limit bounds every reader, whether or not it sees this store.
            self.stolen.store(stolen + excess, Ordering::Relaxed);
        }
        TurnTime { now: Timestamp::from_nanos(served - excess), stalled: Duration::from_nanos(excess) }
    }

    pub(super) fn plan_wake_up(&self, wake_up: Timestamp) {
        self.limit.store(wake_up.as_nanos().saturating_add(self.stall_threshold), Ordering::Release);
    }
}

/// Converts a duration to nanoseconds, which cover 584 years.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn time() -> ServedTime {
        ServedTime::new(Duration::from_millis(500))
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_nanos(ms * MS)
    }

    fn read(time: &ServedTime, monotonic_ms: u64) -> Timestamp {
        time.read(|| monotonic_ms * MS)
    }

    #[test]
    fn without_stalls_it_equals_the_monotonic_clock() {
        let time = time();
        assert_eq!(read(&time, 1_000), at(1_000));
        time.plan_wake_up(at(1_100));
        assert_eq!(read(&time, 1_600), at(1_600), "lateness up to the threshold is not a stall");
        assert_eq!(time.turn(1_600 * MS), TurnTime { now: at(1_600), stalled: Duration::ZERO });
    }

    #[test]
    fn a_stall_costs_at_most_the_threshold() {
        let time = time();
        time.plan_wake_up(at(1_100));
        assert_eq!(read(&time, 31_000), at(1_600), "time never runs ahead of the wheel");
        assert_eq!(
            time.turn(31_000 * MS),
            TurnTime { now: at(1_600), stalled: Duration::from_millis(29_400) }
        );
        assert_eq!(read(&time, 31_001), at(1_600), "before the next plan");
        time.plan_wake_up(at(1_610));
        assert_eq!(read(&time, 31_002), at(1_602));
    }

    #[test]
    fn stalls_add_up() {
        let time = time();
        let mut monotonic = 1_000;
        for round in 0..3 {
            let now = time.turn(monotonic * MS).now;
            assert_eq!(now, at(1_000 + round * 500));
            time.plan_wake_up(now);
            monotonic += 10_000;
        }
    }

    #[test]
    fn time_never_goes_backwards_even_if_the_limit_does() {
        let time = time();
        time.plan_wake_up(at(2_000));
        let before = time.turn(1_000 * MS).now;
        time.plan_wake_up(at(1_010));
        assert!(read(&time, 1_000) >= before);
    }
}
