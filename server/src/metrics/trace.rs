use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReasonLabels {
    reason: &'static str,
}

/// Metrics of dropped spans, which are missing from traces.
#[derive(Debug)]
pub(crate) struct TraceMetrics {
    pub(super) dropped: Family<ReasonLabels, Counter>,
}

const OPEN: &str = "open";
const QUEUE: &str = "queue";
const COLLECTOR: &str = "collector";

impl TraceMetrics {
    pub(super) fn new() -> Self {
        let dropped = Family::default();
        for reason in [OPEN, QUEUE, COLLECTOR] {
            drop(dropped.get_or_create(&ReasonLabels { reason }));
        }
        Self { dropped }
    }

    /// Counts a message whose delivery is not traced because too many traces are open.
    pub(crate) fn too_many_open(&self) {
        self.count(OPEN, 1);
    }

    /// Counts a span that was dropped because the queue of the exporter is full.
    pub(crate) fn overflowed(&self) {
        self.count(QUEUE, 1);
    }

    /// Counts spans that the collector did not accept.
    pub(crate) fn unsent(&self, spans: usize) {
        self.count(COLLECTOR, spans);
    }

    fn count(&self, reason: &'static str, count: usize) {
        self.dropped.get_or_create(&ReasonLabels { reason }).inc_by(count as u64);
    }
}
