//! Whether a lost session could be resumed for as long as the server said, and no longer.

use std::time::Duration;

use super::Opened;
use crate::record::{Counter, Recorder, Times};
use crate::result::{Distribution, summed};
use tokio::time::Instant;

/// Sessions that were resumed after their connection was lost, in time or not.
///
/// The window begins when the server notices the loss, at the earliest when it happened. So a session that is gone although
/// its hello arrived within the window certainly ended early; and a session that still exists, resumed
/// after the window, is overdue by at least as much.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Came back within the window: resumed, or not.
    resumed: Counter,
    early: Counter,
    /// Came back after the window: a new session, or still the old one.
    refused: Counter,
    overdue: Counter,
    /// Came back within the window, and were not answered within it.
    undecided: Counter,
    overdue_by: Times,
}

impl Window {
    pub(super) fn register(&self, recorder: &Recorder) {
        recorder.counters([
            ("resumed", &self.resumed),
            ("early", &self.early),
            ("refused", &self.refused),
            ("overdue", &self.overdue),
            ("undecided", &self.undecided),
        ]);
        recorder.times("overdue_ms", &self.overdue_by);
    }

    /// `lost_at` is when the connection was lost.
    pub(super) fn came_back(&self, lost_at: Instant, window: Duration, opened: &Opened) {
        let expires_at = lost_at + window;
        if opened.greeting.recovered {
            if opened.began <= expires_at {
                return self.resumed.increment();
            }
            self.overdue.increment();
            self.overdue_by.record(opened.began - expires_at);
        } else if opened.at <= expires_at {
            self.early.increment();
        } else if opened.began <= expires_at {
            self.undecided.increment();
        } else {
            self.refused.increment();
        }
    }

    pub(super) fn returned(&self) -> u64 {
        [&self.resumed, &self.early, &self.refused, &self.overdue, &self.undecided]
            .map(Counter::get)
            .iter()
            .sum()
    }

    pub(super) fn outcome(&self) -> WindowOutcome {
        WindowOutcome {
            resumed: self.resumed.get(),
            early: self.early.get(),
            refused: self.refused.get(),
            overdue: self.overdue.get(),
            undecided: self.undecided.get(),
            overdue_ms: self.overdue_by.summary(),
        }
    }
}

summed! {
    pub(super) struct WindowOutcome {
        resumed: u64,
        early: u64,
        refused: u64,
        overdue: u64,
        undecided: u64,
        overdue_ms: Distribution,
    }
}
