use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Labels of spans that are missing from traces.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DroppedSpans {
    reason: &'static str,
}

impl DroppedSpans {
    /// The queue of the exporter was full.
    pub(crate) const QUEUE: Self = Self { reason: "queue" };
    /// The collector did not accept the spans.
    pub(crate) const COLLECTOR: Self = Self { reason: "collector" };

    /// Returns a counter for each reason.
    pub(super) fn counters() -> Family<Self, Counter> {
        let dropped = Family::default();
        for reason in [Self::QUEUE, Self::COLLECTOR] {
            drop(dropped.get_or_create(&reason));
        }
        dropped
    }
}
