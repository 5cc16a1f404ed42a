//! Whether polls that find nothing are held for as long as they should be.

use std::cell::Cell;
use std::time::Duration;

use super::Opened;
use crate::record::{Counter, Recorder, Times};
use crate::result::{Distribution, summed};

/// Servers whose timers count whole milliseconds may be early by as much.
const ROUNDING: Duration = Duration::from_millis(2);

/// The polls that were answered with nothing, of a server of which it is known how long it holds them.
#[derive(Debug, Default)]
pub(super) struct HoldTimes {
    /// Zero if it is not known.
    hold: Cell<Duration>,
    early: Counter,
    lateness: Times,
}

impl HoldTimes {
    pub(super) fn register(&self, recorder: &Recorder) {
        recorder.counter("holds_early", &self.early);
        recorder.times("hold_lateness_ms", &self.lateness);
    }

    /// The server holds the polls of all connections for the same time.
    pub(super) fn promised(&self, opened: &Opened) {
        self.hold.set(opened.greeting.poll_hold);
    }

    /// A poll was answered so long after it was sent. The server had it for no longer than that: early is what was so for certain.
    pub(super) fn held(&self, time: Duration) {
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

    /// `None` if it is not known for how long.
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
    fn a_hold_is_early_or_late_by_what_is_known_of_it() {
        let times = HoldTimes::default();
        times.held(Duration::from_millis(5));
        assert_eq!(times.outcome(), None, "nothing is known");
        times.hold.set(Duration::from_millis(1000));
        for held in [0, 997, 999, 1000, 1030] {
            times.held(Duration::from_millis(held));
        }
        let outcome = times.outcome().expect("it is known");
        assert_eq!(outcome.holds_early, 2);
        assert_eq!(outcome.hold_lateness_ms.number("count"), Ok(3.0));
        let max = outcome.hold_lateness_ms.number("max").expect("there are three");
        assert!((max - 30.0).abs() < 0.1, "{max}");
    }
}
