use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;

/// Channels, their logs, and the messages that pass through them.
#[derive(Debug, Default)]
pub(crate) struct ChannelMetrics {
    pub(super) channels: Gauge,
    pub(super) log_bytes: Gauge,
    pub(super) published: Counter,
    pub(super) delivered: Counter,
    pub(super) gaps: Counter,
    pub(super) untold: Counter,
}

/// Messages as the dashboard shows them.
#[derive(Serialize)]
pub(crate) struct Messages {
    pub(crate) published: u64,
    pub(crate) delivered: u64,
    pub(crate) gaps: u64,
}

impl ChannelMetrics {
    pub(crate) fn published(&self) {
        self.published.inc();
    }

    /// The followers of a channel are not told of a join or a leave.
    pub(crate) fn untold(&self) {
        self.untold.inc();
    }

    pub(crate) fn messages(&self) -> Messages {
        Messages { published: self.published.get(), delivered: self.delivered.get(), gaps: self.gaps.get() }
    }

    /// What one turn of one connection took from the logs.
    pub(crate) fn delivered(&self, messages: u64, gaps: u64) {
        if messages > 0 {
            self.delivered.inc_by(messages);
        }
        if gaps > 0 {
            self.gaps.inc_by(gaps);
        }
    }
}
