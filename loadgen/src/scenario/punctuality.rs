//! Checks that the server acts after the time that it has announced.

use std::cell::Cell;
use std::time::Duration;

use crate::record::{Counter, Metrics, Times};

/// Tolerance for early actions: servers whose timers count whole milliseconds may be early by this much.
const ROUNDING: Duration = Duration::from_millis(2);

/// Pings after the announced ping interval, or polls that were answered after the announced hold time.
#[derive(Debug)]
pub(super) struct Punctuality {
    /// The announced time. Zero if it is not known.
    announced: Cell<Duration>,
    early: Counter,
    lateness: Times,
}

impl Punctuality {
    /// `action` is what the server does: `ping` or `hold`.
    pub(super) fn new(action: &str, metrics: &Metrics) -> Self {
        Self {
            announced: Cell::default(),
            early: metrics.counter(&format!("{action}s_early")),
            lateness: metrics.times(&format!("{action}_lateness_ms")),
        }
    }

    /// Stores the time from the greeting. It is the same for all connections.
    pub(super) fn announce(&self, time: Duration) {
        self.announced.set(time);
    }

    /// Records how long the client had waited when the server acted. The server waited no longer than the
    /// client, so an action that counts as early was early at the server, too.
    pub(super) fn record(&self, waited: Duration) {
        let announced = self.announced.get();
        if announced.is_zero() {
            return;
        }
        if waited + ROUNDING < announced {
            self.early.increment();
        } else {
            self.lateness.record(waited.saturating_sub(announced));
        }
    }
}
