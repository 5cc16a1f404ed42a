use std::time::Duration;

use encke_core::Timestamp;

/// Minimum parked time for parking to have been worthwhile. It also limits the delay of a connection that is
/// unparked often: the delay stops doubling once it has reached this value.
const SHORT_PARK: Duration = Duration::from_secs(5);

/// Maximum delay of a connection that is always active. Checking whether it is still active costs half as
/// much as a command.
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Maximum number of doublings, which are counted even if the configured delay is 0.
const MAX_DOUBLINGS: u8 = 24;

/// Minimum delay before the next attempt for a connection that the system did not allow to be parked. With a
/// delay of 0, the connection would retry continuously.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(200);

/// Delay before a connection is parked. Parking and unparking together cost more than a command, so the delay
/// grows for a connection that is unparked often.
///
/// Stored in a single byte, as a number of doublings and a flag, since each parked connection has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParkBackoff(u8);

/// Set if the system did not allow the connection to be parked.
const FAILED_FLAG: u8 = 1 << 7;

/// When a connection was parked, in seconds modulo 2^16. After just over 18 hours, the parked time therefore
/// seems short, and the next delay is doubled.
#[derive(Clone, Copy, Debug)]
pub struct ParkedSince(u16);

impl ParkedSince {
    pub fn at(now: Timestamp) -> Self {
        let seconds = Duration::from_nanos(now.as_nanos()).as_secs();
        #[expect(clippy::cast_possible_truncation, reason = "the time wraps after 18 hours")]
        Self(seconds as u16)
    }

    /// Returns the time since the connection was parked, to the second.
    pub fn elapsed(self, now: Timestamp) -> Duration {
        Duration::from_secs(Self::at(now).0.wrapping_sub(self.0).into())
    }
}

impl ParkBackoff {
    /// Returns how long the connection must be idle. `idle_time` is the configured delay.
    pub fn delay(self, idle_time: Duration) -> Duration {
        let min = if self.0 & FAILED_FLAG != 0 { MIN_RETRY_DELAY } else { Duration::ZERO };
        idle_time.max(min).saturating_mul(1 << self.doublings()).min(MAX_DELAY.max(idle_time))
    }

    /// Records that the delay has elapsed, but the connection was active or could not be parked.
    pub fn record_activity(&mut self, idle_time: Duration) {
        self.double_up_to(MAX_DELAY, idle_time);
    }

    /// Records that the system did not allow the connection to be parked.
    pub fn record_failure(&mut self) {
        self.0 |= FAILED_FLAG;
    }

    /// Records that the connection was unparked after being parked for `parked_for`.
    pub fn record_unpark(&mut self, parked_for: Duration, idle_time: Duration) {
        if parked_for < SHORT_PARK {
            self.double_up_to(SHORT_PARK, idle_time)
        } else {
            *self = Self::default()
        }
    }

    fn double_up_to(&mut self, max: Duration, idle_time: Duration) {
        if self.delay(idle_time) < max && self.doublings() < MAX_DOUBLINGS {
            self.0 += 1;
        }
    }

    fn doublings(self) -> u8 {
        self.0 & !FAILED_FLAG
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_a_limit_and_a_long_parked_time_resets_it() {
        let idle_time = Duration::from_millis(200);
        let mut backoff = ParkBackoff::default();
        let mut delays = Vec::new();
        for _ in 0..100 {
            delays.push(backoff.delay(idle_time).as_millis());
            backoff.record_unpark(SHORT_PARK - Duration::from_nanos(1), idle_time);
        }
        assert_eq!(delays[..7], [200, 400, 800, 1600, 3200, 6400, 6400]);
        assert_eq!(delays[99], 6400);
        for _ in 0..100 {
            backoff.record_activity(idle_time);
        }
        assert_eq!(backoff.delay(idle_time), MAX_DELAY);
        backoff.record_unpark(Duration::ZERO, idle_time);
        assert_eq!(backoff.delay(idle_time), MAX_DELAY, "a short parked time does not reset it");
        backoff.record_unpark(SHORT_PARK, idle_time);
        assert_eq!(backoff.delay(idle_time), idle_time);
    }

    #[test]
    fn delay_grows_after_failures_even_if_it_is_zero() {
        let mut backoff = ParkBackoff::default();
        let mut delays = Vec::new();
        for _ in 0..10 {
            backoff.record_failure();
            backoff.record_activity(Duration::ZERO);
            delays.push(backoff.delay(Duration::ZERO).as_millis());
        }
        assert_eq!(delays, [400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000, 30_000]);
        backoff.record_unpark(SHORT_PARK, Duration::ZERO);
        assert_eq!(backoff.delay(Duration::ZERO), Duration::ZERO);
        backoff.record_failure();
        assert_eq!(
            backoff.delay(Duration::from_secs(60)),
            Duration::from_secs(60),
            "the configured delay is longer"
        );
    }

    #[test]
    fn parked_time_is_measured_in_seconds() {
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        for start in [0, 65_530_000, 65_534_000, 65_536_000_000] {
            let since = ParkedSince::at(at(start + 1_900));
            for (elapsed_ms, expected) in [(0, 0), (99, 0), (100, 1), (4_999, 5), (5_000, 5), (5_100, 6)] {
                assert_eq!(since.elapsed(at(start + 1_900 + elapsed_ms)), Duration::from_secs(expected));
            }
        }
    }

    #[test]
    fn zero_and_long_delays_do_not_change() {
        for idle_time in [Duration::ZERO, Duration::from_secs(60), Duration::MAX] {
            let mut backoff = ParkBackoff::default();
            for _ in 0..1000 {
                backoff.record_activity(idle_time);
                assert_eq!(backoff.delay(idle_time), idle_time);
            }
        }
    }
}
