//! Checks that a lost session can be resumed for as long as the server announced, and no longer.

use std::time::Duration;

use super::OpenedConnection;
use crate::record::{Counter, Recorder, Times};
use crate::result::{Distribution, summed};
use tokio::time::Instant;

/// Attempts to resume sessions whose connection was lost, in time or not.
///
/// The window begins when the server notices the loss, which is at the earliest when the loss happens.
/// Therefore, if a session no longer exists although the new hello arrived within the window, the session
/// certainly ended early. A session that is resumed after the window is overdue by at least the time since
/// the end of the window.
#[derive(Debug, Default)]
pub(super) struct WindowReturns {
    /// Number of clients that reconnected within the window and resumed. The next field counts clients that
    /// could not resume.
    resumed: Counter,
    early: Counter,
    /// Number of clients that reconnected after the window and received a new session. The next field counts
    /// clients that still resumed the old one.
    refused: Counter,
    overdue: Counter,
    /// Number of clients that began to reconnect within the window, but received the hello after it.
    undecided: Counter,
    overdue_by: Times,
}

impl WindowReturns {
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

    /// Records a client that has reconnected. `lost_at` is when its connection was lost.
    pub(super) fn record_return(&self, lost_at: Instant, window: Duration, opened: &OpenedConnection) {
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
