//! Conversion of times of the wall clock, which the kernel records for received data, to CLOCK_MONOTONIC.
#![expect(unsafe_code, reason = "the standard library does not return the times of these clocks")]

use std::mem;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Maximum number of attempts to read the clocks without an interruption of the thread.
const CLOCK_READS: usize = 10;

/// Maximum time between two reads of a clock if the thread is not interrupted.
const UNINTERRUPTED: Duration = Duration::from_micros(5);

/// Difference between two offsets above which the wall clock counts as changed. Adjustments of its rate do not change
/// the offset, because they also adjust CLOCK_MONOTONIC.
const CHANGE: Duration = Duration::from_millis(1);

/// Time after a change of the wall clock during which recorded times are not used, because they may be from before the
/// change. When it has elapsed, the server has read the data that was received before the change.
const SETTLING_TIME: Duration = Duration::from_secs(10);

const UNKNOWN_OFFSET: i64 = i64::MIN;

/// The times of both clocks at the same moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks {
    pub(crate) monotonic: Duration,
    pub(crate) wall: Duration,
}

impl Clocks {
    /// Reads both clocks. `None` if the thread was interrupted each time.
    pub(crate) fn read() -> Option<Self> {
        let mut monotonic = clock(libc::CLOCK_MONOTONIC);
        for _ in 0..CLOCK_READS {
            let wall = clock(libc::CLOCK_REALTIME);
            let after = clock(libc::CLOCK_MONOTONIC);
            if after - monotonic < UNINTERRUPTED {
                return Some(Self { monotonic, wall });
            }
            monotonic = after;
        }
        None
    }
}

/// Tracks the offset of the wall clock from CLOCK_MONOTONIC, to notice when the wall clock is changed.
#[derive(Debug)]
pub(crate) struct WallClock {
    /// The last offset, in nanoseconds.
    offset: AtomicI64,
    /// When a change was last noticed, in nanoseconds on CLOCK_MONOTONIC. 0 if none was.
    changed_at: AtomicU64,
}

impl WallClock {
    const fn new() -> Self {
        Self { offset: AtomicI64::new(UNKNOWN_OFFSET), changed_at: AtomicU64::new(0) }
    }

    pub(crate) fn shared() -> &'static Self {
        static SHARED: WallClock = WallClock::new();
        &SHARED
    }

    /// Converts a past time of the wall clock. `None` if the clocks could not be read, or the wall clock was changed
    /// so recently that the time may be from before the change.
    pub(crate) fn to_monotonic(&self, wall: Duration, now: Option<Clocks>) -> Option<Duration> {
        let offset = self.offset(now)?;
        let converted = i64::try_from(wall.as_nanos()).ok()?.checked_sub(offset)?;
        let now = now?.monotonic;
        u64::try_from(converted).ok().map(|nanos| Duration::from_nanos(nanos).min(now))
    }

    /// Records the current offset and returns it, in nanoseconds. `None` if the clocks could not be read, or if the
    /// offset has changed recently.
    pub(crate) fn offset(&self, now: Option<Clocks>) -> Option<i64> {
        let Clocks { monotonic, wall } = now?;
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).ok();
        let offset = nanos(wall)?.checked_sub(nanos(monotonic)?)?;
        let now = u64::try_from(monotonic.as_nanos()).ok()?;
        let before = self.offset.swap(offset, Ordering::Relaxed);
        if before != UNKNOWN_OFFSET && u128::from(before.abs_diff(offset)) > CHANGE.as_nanos() {
            self.changed_at.store(now, Ordering::Relaxed);
        }
        let changed_at = self.changed_at.load(Ordering::Relaxed);
        let has_settled =
            changed_at == 0 || u128::from(now.saturating_sub(changed_at)) >= SETTLING_TIME.as_nanos();
        has_settled.then_some(offset)
    }
}

pub(crate) fn clock(id: libc::clockid_t) -> Duration {
    // SAFETY: the struct consists of integers, for which zero is a valid value.
    let mut now: libc::timespec = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes one `timespec`. With these clocks, the call does not fail.
    unsafe { libc::clock_gettime(id, &raw mut now) };
    to_duration(now)
}

/// Converts a time or a duration from the kernel, which must not be negative.
pub(crate) fn to_duration(time: libc::timespec) -> Duration {
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_not_used_for_a_while_after_a_change() {
        let clock = WallClock::new();
        let secs = Duration::from_secs_f64;
        let at = |monotonic: f64, wall: f64| Some(Clocks { monotonic: secs(monotonic), wall: secs(wall) });
        assert_eq!(clock.to_monotonic(secs(1_003.0), at(5.0, 1_005.0)), Some(secs(3.0)));
        assert_eq!(clock.to_monotonic(secs(1_003.0), None), None, "the thread was interrupted");
        assert_eq!(clock.to_monotonic(secs(1_007.0), at(8.0, 1_008.000_9)), Some(secs(7.0) - secs(0.000_9)));
        assert_eq!(
            clock.to_monotonic(secs(1_009.0), at(8.0, 1_008.0)),
            Some(secs(8.0)),
            "no time is in the future"
        );
        // The clock is set forward, and back again.
        for (now, offset) in [(10.0, 1_100.0), (14.0, 1_100.0), (15.0, 1_000.0), (24.9, 1_000.0)] {
            assert_eq!(clock.to_monotonic(secs(1_004.0), at(now, now + offset)), None, "{now}");
        }
        assert_eq!(clock.to_monotonic(secs(1_024.0), at(25.0, 1_025.0)), Some(secs(24.0)));
    }

    #[test]
    fn offset_of_the_real_clocks_does_not_change() {
        let clock = WallClock::new();
        let offsets: Vec<i64> = (0..1_000).filter_map(|_| clock.offset(Clocks::read())).collect();
        let first = *offsets.first().expect("the clocks were read");
        assert!(offsets.iter().all(|offset| u128::from(offset.abs_diff(first)) < CHANGE.as_nanos()));
    }
}
