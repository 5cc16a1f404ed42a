//! Checks that pings arrive when they are due.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use super::OpenedConnection;
use crate::record::{Counter, Recorder, Times};
use crate::result::{Distribution, summed};

/// Tolerance for early pings: servers whose timers count whole milliseconds may be early by this much.
const ROUNDING: Duration = Duration::from_millis(2);

/// Pings of a server that announces its ping interval.
#[derive(Debug, Default)]
pub(super) struct PingTimes {
    /// The announced ping interval. Zero if the server does not announce it.
    interval: Cell<Duration>,
    early: Counter,
    lateness: Times,
}

/// When one connection's last ping was answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastPing(Option<Instant>);

impl PingTimes {
    pub(super) fn register(&self, recorder: &Recorder) {
        recorder.counter("pings_early", &self.early);
        recorder.times("ping_lateness_ms", &self.lateness);
    }

    /// Stores the interval from the greeting. It is the same for all connections.
    pub(super) fn note_announced(&self, opened: &OpenedConnection) {
        self.interval.set(opened.greeting.ping_interval);
    }

    /// Records a ping that is answered now. The first ping may arrive at any time, because servers spread
    /// pings over time.
    pub(super) fn record_ping(&self, last: &mut LastPing) {
        let now = Instant::now();
        if let Some(before) = last.0.replace(now) {
            self.record(now.saturating_duration_since(before));
        }
    }

    /// Records the time since the last pong was sent. The server received that pong later, so it has waited
    /// for at most this long.
    fn record(&self, waited: Duration) {
        let interval = self.interval.get();
        if interval.is_zero() {
            return;
        }
        if waited + ROUNDING < interval {
            self.early.increment();
        } else {
            self.lateness.record(waited.saturating_sub(interval));
        }
    }

    /// Returns the outcome. `None` if the server did not announce its ping interval.
    pub(super) fn outcome(&self) -> Option<PingTimesOutcome> {
        (!self.interval.get().is_zero()).then(|| PingTimesOutcome {
            pings_early: self.early.get(),
            ping_lateness_ms: self.lateness.summary(),
        })
    }
}

summed! {
    pub(super) struct PingTimesOutcome {
        pings_early: u64,
        ping_lateness_ms: Distribution,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_compared_with_the_announced_one() {
        let millis = Duration::from_millis;
        let times = PingTimes::default();
        times.record(millis(5));
        assert_eq!(times.outcome(), None, "no interval was announced");
        times.interval.set(millis(1000));
        for waited in [990, 999, 1030] {
            times.record(millis(waited));
        }
        let outcome = times.outcome().expect("an interval was announced");
        assert_eq!(outcome.pings_early, 1);
        assert_eq!(outcome.ping_lateness_ms.number("count"), Ok(2.0));
        let max = outcome.ping_lateness_ms.number("max").expect("two pings were recorded");
        assert!((max - 30.0).abs() < 0.1, "{max}");
    }
}
