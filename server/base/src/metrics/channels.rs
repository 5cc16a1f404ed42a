use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use serde::Serialize;

/// One in this many deliveries is timed. The check runs for each batch that a connection sends; a power of two
/// makes it cheap.
const SAMPLE_EVERY: u64 = 128;

/// Metrics of channels, their logs, and messages.
#[derive(Debug, Default)]
pub struct ChannelMetrics {
    pub(super) channels: Gauge,
    pub(super) log_bytes: Gauge,
    pub(super) published: Counter,
    pub(super) delivered: Counter,
    pub(super) gaps: Counter,
    pub(super) join_leave_lost: Counter,
}

/// Message counts as shown by the dashboard.
#[derive(Debug, Serialize)]
pub struct MessageCounts {
    pub published: u64,
    pub delivered: u64,
    pub gaps: u64,
}

impl ChannelMetrics {
    #[inline]
    pub fn published(&self) {
        self.published.inc();
    }

    /// Counts a join or leave that could not be announced to subscribers.
    pub fn join_leave_lost(&self) {
        self.join_leave_lost.inc();
    }

    pub fn messages(&self) -> MessageCounts {
        MessageCounts {
            published: self.published.get(),
            delivered: self.delivered.get(),
            gaps: self.gaps.get(),
        }
    }

    /// Counts the messages and gaps that a connection took from the logs in one iteration. If the time of one
    /// of the messages is to be measured, returns how many messages follow it.
    #[inline]
    pub fn delivered(&self, messages: u64, gaps: u64) -> Option<u64> {
        if gaps > 0 {
            self.gaps.inc_by(gaps);
        }
        if messages == 0 {
            return None;
        }
        let total = self.delivered.inc_by(messages).wrapping_add(messages);
        let later = total % SAMPLE_EVERY;
        (later < messages).then_some(later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_evenly_spaced_deliveries() {
        let metrics = ChannelMetrics::default();
        let (mut total, mut samples) = (0, Vec::new());
        for messages in [1, 0, 126, 1, 127, 1, 1, 3, 64, 64, 125].into_iter().chain((0..500).map(|n| n % 33))
        {
            total += messages;
            samples.extend(metrics.delivered(messages, 1).map(|later| total - later));
        }
        let expected: Vec<_> = (1..=total / SAMPLE_EVERY).map(|number| number * SAMPLE_EVERY).collect();
        assert_eq!(samples, expected);
        assert_eq!((metrics.messages().delivered, metrics.messages().gaps), (total, 511));
    }
}
