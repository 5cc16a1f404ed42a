//! Whether pings come when they are due.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use super::Opened;
use crate::record::{Counter, Recorder, Times};
use crate::result::{Distribution, summed};

/// Servers whose timers count whole milliseconds may be early by as much.
const ROUNDING: Duration = Duration::from_millis(2);

/// The pings of a server that announces its ping interval.
#[derive(Debug, Default)]
pub(super) struct PingTimes {
    /// Zero if the server does not announce it.
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

    /// The server announces the same interval to all connections.
    pub(super) fn promised(&self, opened: &Opened) {
        self.interval.set(opened.greeting.ping_interval);
    }

    /// A ping has come and is being answered. The first one may come at any time, for servers spread them.
    pub(super) fn came(&self, last: &mut LastPing) {
        let now = Instant::now();
        if let Some(before) = last.0.replace(now) {
            self.record(now.saturating_duration_since(before));
        }
    }

    /// The server received the last pong after it was sent, so it began to wait no longer ago than this.
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

    /// `None` if the server did not say when it pings.
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
    fn what_was_promised_is_the_measure() {
        let millis = Duration::from_millis;
        let times = PingTimes::default();
        times.record(millis(5));
        assert_eq!(times.outcome(), None, "nothing was promised");
        times.interval.set(millis(1000));
        for waited in [990, 999, 1030] {
            times.record(millis(waited));
        }
        let outcome = times.outcome().expect("an interval was promised");
        assert_eq!(outcome.pings_early, 1);
        assert_eq!(outcome.ping_lateness_ms.number("count"), Ok(2.0));
        let max = outcome.ping_lateness_ms.number("max").expect("there are two");
        assert!((max - 30.0).abs() < 0.1, "{max}");
    }
}
