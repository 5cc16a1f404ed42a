use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

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

impl ChannelMetrics {
    pub(crate) fn published(&self) {
        self.published.inc();
    }

    /// The followers of a channel are not told of a join or a leave.
    pub(crate) fn untold(&self) {
        self.untold.inc();
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
