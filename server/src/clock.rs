//! The only reader of time.
//!
//! Time that the server could not serve does not count: when the wheel thread wakes much later than it planned (a
//! stopped process, a suspended machine, starvation), what goes beyond `stall_threshold` is taken out of the
//! server's time for good. A freeze of thirty seconds closes no healthy session. Changes of the wall clock do not
//! matter, save for when tokens expire: they say so by the wall clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use encke_core::Timestamp;

use crate::auth::UnixTime;

/// The first instant, so that there is time before it and none is zero.
const START: Duration = Duration::from_secs(1);

/// Server time. Anyone may read it; the wheel thread alone moves its limit.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    time: ServedTime,
}

impl Clock {
    /// A clock whose time, once [`Clock::plan`] was called, runs at most `stall_threshold` beyond the plan.
    #[must_use]
    pub(crate) fn new(stall_threshold: Duration) -> Self {
        Self { origin: now(), time: ServedTime::new(stall_threshold) }
    }

    /// The server's time.
    #[must_use]
    pub(crate) fn now(&self) -> Timestamp {
        // The limit first, then the monotonic clock: see `ServedTime::read`.
        self.time.read(|| self.monotonic())
    }

    /// Time since the start as the machine counts it, stalls included: for the watchdog, which looks for them.
    #[must_use]
    pub(crate) fn uptime(&self) -> Duration {
        now().duration_since(self.origin)
    }

    /// For the wheel thread, on waking: the time, and how much was lost to a stall.
    pub(crate) fn turn(&self) -> Turn {
        self.time.turn(self.monotonic())
    }

    /// For the wheel thread, before it sleeps: no one's time shall run much beyond the planned wake-up.
    pub(crate) fn plan(&self, wake_up: Timestamp) {
        self.time.plan(wake_up);
    }

    /// This clock's instants as hyper counts them.
    pub(crate) fn to_instant(&self, timestamp: Timestamp) -> Instant {
        self.origin + Duration::from_nanos(timestamp.as_nanos())
    }

    /// The reverse of [`Clock::to_instant`].
    pub(crate) fn timestamp_of(&self, instant: Instant) -> Timestamp {
        Timestamp::from_nanos(nanos(instant.saturating_duration_since(self.origin)))
    }

    fn monotonic(&self) -> u64 {
        nanos(START + now().duration_since(self.origin))
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
fn now() -> Instant {
    Instant::now()
}

/// The wall clock, for what a token says about time (`exp`, `nbf`) and for nothing else: it jumps.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that reads a clock")]
pub fn unix_now() -> UnixTime {
    // A clock that is set to before 1970 counts as 1970.
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since_epoch.map_or(UnixTime::from_secs(0), UnixTime::since_epoch)
}

/// A duration in nanoseconds: 584 years of them fit.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What a turn of the wheel finds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn {
    pub(crate) now: Timestamp,
    pub(crate) stalled: Duration,
}

/// The arithmetic of the clock, without the clock. All values are nanoseconds.
#[derive(Debug)]
struct ServedTime {
    stall_threshold: u64,
    stolen: AtomicU64,
    limit: AtomicU64,
}

impl ServedTime {
    fn new(stall_threshold: Duration) -> Self {
        Self {
            stall_threshold: nanos(stall_threshold),
            stolen: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
        }
    }

    /// Limit first (Acquire): whoever sees a new limit sees what was stolen before it was set. Whoever sees an old
    /// one is held by it, however late the monotonic clock is read.
    fn read(&self, monotonic: impl FnOnce() -> u64) -> Timestamp {
        let limit = self.limit.load(Ordering::Acquire);
        let stolen = self.stolen.load(Ordering::Relaxed);
        Timestamp::from_nanos(monotonic().saturating_sub(stolen).min(limit))
    }

    fn turn(&self, monotonic: u64) -> Turn {
        let limit = self.limit.load(Ordering::Relaxed);
        let stolen = self.stolen.load(Ordering::Relaxed);
        let served = monotonic.saturating_sub(stolen);
        let excess = served.saturating_sub(limit);
        if excess > 0 {
            // Until the next plan the old limit holds everyone, whatever they see of this.
            self.stolen.store(stolen + excess, Ordering::Relaxed);
        }
        Turn { now: Timestamp::from_nanos(served - excess), stalled: Duration::from_nanos(excess) }
    }

    fn plan(&self, wake_up: Timestamp) {
        self.limit.store(wake_up.as_nanos().saturating_add(self.stall_threshold), Ordering::Release);
    }
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
    fn on_time_it_is_the_monotonic_clock() {
        let time = time();
        assert_eq!(read(&time, 1_000), at(1_000));
        time.plan(at(1_100));
        assert_eq!(read(&time, 1_600), at(1_600), "late by the threshold is not a stall");
        assert_eq!(time.turn(1_600 * MS), Turn { now: at(1_600), stalled: Duration::ZERO });
    }

    #[test]
    fn a_stall_costs_at_most_the_threshold() {
        let time = time();
        time.plan(at(1_100));
        assert_eq!(read(&time, 31_000), at(1_600), "no one sees time jump ahead of the wheel");
        assert_eq!(time.turn(31_000 * MS), Turn { now: at(1_600), stalled: Duration::from_millis(29_400) });
        assert_eq!(read(&time, 31_001), at(1_600), "before the next plan");
        time.plan(at(1_610));
        assert_eq!(read(&time, 31_002), at(1_602));
    }

    #[test]
    fn stalls_add_up() {
        let time = time();
        let mut monotonic = 1_000;
        for round in 0..3 {
            let now = time.turn(monotonic * MS).now;
            assert_eq!(now, at(1_000 + round * 500));
            time.plan(now);
            monotonic += 10_000;
        }
    }

    #[test]
    fn it_never_goes_backwards_for_the_wheel_though_the_limit_may() {
        let time = time();
        time.plan(at(2_000));
        let before = time.turn(1_000 * MS).now;
        time.plan(at(1_010));
        assert!(read(&time, 1_000) >= before);
    }

    #[test]
    fn instants_come_back_as_they_went() {
        let clock = Clock::new(Duration::from_millis(500));
        let now = clock.now();
        assert_eq!(clock.timestamp_of(clock.to_instant(now)), now);
    }
}
