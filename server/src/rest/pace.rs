use std::time::Duration;

use encke_core::Timestamp;

/// A rest that was shorter was hardly worth it. However often a connection wakes, it rests after so long a silence.
const SHORT: Duration = Duration::from_secs(5);

/// Of a connection that speaks and speaks, so often it is looked whether it still does: each look costs half a command.
const LONGEST: Duration = Duration::from_secs(30);

/// So often a delay may double. Even of one that is 0 we keep count.
const MOST_DOUBLINGS: u8 = 24;

/// A connection that the system did not let rest tries again after so long at the earliest: otherwise, without a delay, it would do nothing else.
const AFTER_A_FAILURE: Duration = Duration::from_millis(200);

/// How soon a connection goes to rest: to do so and to wake costs more than a command, so one that keeps waking does it less often.
///
/// One byte, since each connection at rest has one: how often the delay was doubled, and a bit more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace(u8);

/// The system did not let it rest.
const FAILED: u8 = 1 << 7;

/// When a rest began, in whole seconds, of which the lower half of a word is left: after each 18 hours, a rest may count as a short one, and the next begins once a little
/// later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began(u16);

impl Began {
    pub(crate) fn at(now: Timestamp) -> Self {
        let seconds = Duration::from_nanos(now.as_nanos()).as_secs();
        #[expect(clippy::cast_possible_truncation, reason = "what is left is told")]
        Self(seconds as u16)
    }

    /// How long it has taken until now, to a second.
    pub(crate) fn rested(self, now: Timestamp) -> Duration {
        Duration::from_secs(Self::at(now).0.wrapping_sub(self.0).into())
    }
}

impl Pace {
    /// How long it is to be silent. `after` is what is configured.
    pub(crate) fn delay(self, after: Duration) -> Duration {
        let least = if self.0 & FAILED != 0 { AFTER_A_FAILURE } else { Duration::ZERO };
        after.max(least).saturating_mul(1 << self.doublings()).min(LONGEST.max(after))
    }

    /// The delay has passed, and the connection was not silent, or could not rest.
    pub(crate) fn spoke(&mut self, after: Duration) {
        self.double_up_to(LONGEST, after);
    }

    /// The system does not let it rest.
    pub(crate) fn failed(&mut self) {
        self.0 |= FAILED;
    }

    /// The connection wakes, after so long a rest.
    pub(crate) fn woke(&mut self, rested: Duration, after: Duration) {
        if rested < SHORT { self.double_up_to(SHORT, after) } else { *self = Self::default() }
    }

    fn double_up_to(&mut self, longest: Duration, after: Duration) {
        if self.delay(after) < longest && self.doublings() < MOST_DOUBLINGS {
            self.0 += 1;
        }
    }

    fn doublings(self) -> u8 {
        self.0 & !FAILED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_up_to_a_limit_and_a_long_rest_ends_that() {
        let after = Duration::from_millis(200);
        let mut pace = Pace::default();
        let mut delays = Vec::new();
        for _ in 0..100 {
            delays.push(pace.delay(after).as_millis());
            pace.woke(SHORT - Duration::from_nanos(1), after);
        }
        assert_eq!(delays[..7], [200, 400, 800, 1600, 3200, 6400, 6400]);
        assert_eq!(delays[99], 6400);
        for _ in 0..100 {
            pace.spoke(after);
        }
        assert_eq!(pace.delay(after), LONGEST);
        pace.woke(Duration::ZERO, after);
        assert_eq!(pace.delay(after), LONGEST, "a short rest makes it no shorter");
        pace.woke(SHORT, after);
        assert_eq!(pace.delay(after), after);
    }

    #[test]
    fn what_has_failed_is_tried_again_later_and_later_whatever_the_delay() {
        let mut pace = Pace::default();
        let mut delays = Vec::new();
        for _ in 0..10 {
            pace.failed();
            pace.spoke(Duration::ZERO);
            delays.push(pace.delay(Duration::ZERO).as_millis());
        }
        assert_eq!(delays, [400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000, 30_000]);
        pace.woke(SHORT, Duration::ZERO);
        assert_eq!(pace.delay(Duration::ZERO), Duration::ZERO);
        pace.failed();
        assert_eq!(pace.delay(Duration::from_secs(60)), Duration::from_secs(60), "it is long enough");
    }

    #[test]
    fn a_rest_is_measured_in_seconds() {
        let at = |ms: u64| Timestamp::from_nanos(ms * 1_000_000);
        for start in [0, 65_530_000, 65_534_000, 65_536_000_000] {
            let began = Began::at(at(start + 1_900));
            for (after, expected) in [(0, 0), (99, 0), (100, 1), (4_999, 5), (5_000, 5), (5_100, 6)] {
                assert_eq!(began.rested(at(start + 1_900 + after)), Duration::from_secs(expected));
            }
        }
    }

    #[test]
    fn a_delay_of_nothing_stays_nothing_and_a_long_one_stays_what_it_is() {
        for after in [Duration::ZERO, Duration::from_secs(60), Duration::MAX] {
            let mut pace = Pace::default();
            for _ in 0..1000 {
                pace.spoke(after);
                assert_eq!(pace.delay(after), after);
            }
        }
    }
}
