//! Checks that the server holds polls without messages for as long as it should.

use std::cell::Cell;
use std::time::Duration;

use super::OpenedConnection;
use crate::record::{Counter, Recorder, Times};
use crate::result::{Distribution, summed};

/// Tolerance for early answers: servers whose timers count whole milliseconds may be early by this much.
const ROUNDING: Duration = Duration::from_millis(2);

/// Polls that were answered without messages, if the server's hold time is known.
#[derive(Debug, Default)]
pub(super) struct HoldTimes {
    /// The server's hold time. Zero if it is not known.
    hold: Cell<Duration>,
    early: Counter,
    lateness: Times,
}

impl HoldTimes {
    pub(super) fn register(&self, recorder: &Recorder) {
        recorder.counter("holds_early", &self.early);
        recorder.times("hold_lateness_ms", &self.lateness);
    }

    /// Stores the hold time from the greeting. It is the same for all connections.
    pub(super) fn note_announced(&self, opened: &OpenedConnection) {
        self.hold.set(opened.greeting.poll_hold);
    }

    /// Records a poll that was answered without messages after `time`. The server held it for at most that
    /// long, so an answer that seems early certainly is.
    pub(super) fn record_hold(&self, time: Duration) {
        let hold = self.hold.get();
        if hold.is_zero() {
            return;
        }
        if time + ROUNDING < hold {
            self.early.increment();
        } else {
            self.lateness.record(time.saturating_sub(hold));
        }
    }

    /// Returns the outcome. `None` if the hold time is not known.
    pub(super) fn outcome(&self) -> Option<HoldTimesOutcome> {
        (!self.hold.get().is_zero()).then(|| HoldTimesOutcome {
            holds_early: self.early.get(),
            hold_lateness_ms: self.lateness.summary(),
        })
    }
}

summed! {
    pub(super) struct HoldTimesOutcome {
        holds_early: u64,
        hold_lateness_ms: Distribution,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hold_times_are_compared_with_the_announced_one() {
        let times = HoldTimes::default();
        times.record_hold(Duration::from_millis(5));
        assert_eq!(times.outcome(), None, "the hold time is unknown");
        times.hold.set(Duration::from_millis(1000));
        for held in [0, 997, 999, 1000, 1030] {
            times.record_hold(Duration::from_millis(held));
        }
        let outcome = times.outcome().expect("the hold time is known");
        assert_eq!(outcome.holds_early, 2);
        assert_eq!(outcome.hold_lateness_ms.number("count"), Ok(3.0));
        let max = outcome.hold_lateness_ms.number("max").expect("three holds were recorded");
        assert!((max - 30.0).abs() < 0.1, "{max}");
    }
}
