use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReasonLabels {
    reason: &'static str,
}

/// Traces that are missing, or some of them.
#[derive(Debug)]
pub(crate) struct TraceMetrics {
    pub(super) dropped: Family<ReasonLabels, Counter>,
}

const OPEN: &str = "open";
const QUEUE: &str = "queue";
const COLLECTOR: &str = "collector";

impl TraceMetrics {
    /// All at zero.
    pub(super) fn new() -> Self {
        let dropped = Family::default();
        for reason in [OPEN, QUEUE, COLLECTOR] {
            drop(dropped.get_or_create(&ReasonLabels { reason }));
        }
        Self { dropped }
    }

    /// Too many traces were open to tell how this message gets to its readers.
    pub(crate) fn too_many_open(&self) {
        self.count(OPEN, 1);
    }

    /// Too many spans wait to be sent.
    pub(crate) fn overflowed(&self) {
        self.count(QUEUE, 1);
    }

    /// The collector has not taken so many spans.
    pub(crate) fn unsent(&self, spans: usize) {
        self.count(COLLECTOR, spans);
    }

    fn count(&self, reason: &'static str, count: usize) {
        self.dropped.get_or_create(&ReasonLabels { reason }).inc_by(count as u64);
    }
}
