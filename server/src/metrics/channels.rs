use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;

/// Metrics of channels, their logs, and messages.
#[derive(Debug, Default)]
pub(crate) struct ChannelMetrics {
    pub(super) channels: Gauge,
    pub(super) log_bytes: Gauge,
    pub(super) published: Counter,
    pub(super) delivered: Counter,
    pub(super) gaps: Counter,
    pub(super) join_leave_lost: Counter,
}

/// Message counts as shown by the dashboard.
#[derive(Serialize)]
pub(crate) struct MessageCounts {
    pub(crate) published: u64,
    pub(crate) delivered: u64,
    pub(crate) gaps: u64,
}

impl ChannelMetrics {
    pub(crate) fn published(&self) {
        self.published.inc();
    }

    /// Counts a join or leave of which subscribers could not be notified.
    pub(crate) fn join_leave_lost(&self) {
        self.join_leave_lost.inc();
    }

    pub(crate) fn messages(&self) -> MessageCounts {
        MessageCounts {
            published: self.published.get(),
            delivered: self.delivered.get(),
            gaps: self.gaps.get(),
        }
    }

    /// Counts the messages and gaps that a connection took from the logs in one iteration.
    pub(crate) fn delivered(&self, messages: u64, gaps: u64) {
        if messages > 0 {
            self.delivered.inc_by(messages);
        }
        if gaps > 0 {
            self.gaps.inc_by(gaps);
        }
    }
}
