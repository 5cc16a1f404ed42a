use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::{MetricType, TypedMetric};
use serde::Serialize;

use crate::locks::RwLock;

/// Metrics with the same name and different labels. Unlike prometheus-client's `Family`, their values can be
/// read, and they are sorted by label.
///
/// Clones share their metrics.
#[derive(Debug)]
pub(super) struct Labelled<L, M>(Arc<RwLock<BTreeMap<L, M>>>);

/// Value of a counter with its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LabelledCount<L> {
    #[serde(flatten)]
    labels: L,
    count: u64,
}

/// Value of a gauge with its labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LabelledGauge<L> {
    #[serde(flatten)]
    labels: L,
    open: i64,
}

impl<L: Ord + Clone, M: Clone + Default> Labelled<L, M> {
    /// Calls `act` with the metric for these labels, which is created if necessary.
    pub(super) fn with<T>(&self, labels: &L, act: impl FnOnce(&M) -> T) -> T {
        if let Some(metric) = self.0.read().get(labels) {
            return act(metric);
        }
        act(&self.insert(labels))
    }

    /// Creates the metric for these labels, so that it is exported.
    pub(super) fn create(&self, labels: &L) {
        self.with(labels, |_| ());
    }

    fn insert(&self, labels: &L) -> M {
        self.0.write().entry(labels.clone()).or_default().clone()
    }

    fn collect<T>(&self, shown: impl Fn(L, &M) -> T) -> Vec<T> {
        self.0.read().iter().map(|(labels, metric)| shown(labels.clone(), metric)).collect()
    }
}

impl<L: Ord + Clone> Labelled<L, Counter> {
    pub(super) fn inc(&self, labels: &L) {
        self.with(labels, |counter| _ = counter.inc());
    }

    /// Returns all non-zero counters. The dashboard reads them every second, and treats a missing counter as
    /// 0.
    pub(super) fn counts(&self) -> Vec<LabelledCount<L>> {
        let mut counts = self.collect(|labels, counter| LabelledCount { labels, count: counter.get() });
        counts.retain(|count| count.count > 0);
        counts
    }
}

impl<L: Ord + Clone> Labelled<L, Gauge> {
    pub(super) fn open(&self) -> Vec<LabelledGauge<L>> {
        self.collect(|labels, gauge| LabelledGauge { labels, open: gauge.get() })
    }

    pub(super) fn sum(&self) -> i64 {
        self.0.read().values().map(Gauge::get).sum()
    }
}

impl<L, M> Clone for Labelled<L, M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<L, M> Default for Labelled<L, M> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<L: EncodeLabelSet, M: EncodeMetric + TypedMetric> EncodeMetric for Labelled<L, M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (labels, metric) in &*self.0.read() {
            metric.encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        self.0.read().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::registry::Registry;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet, Serialize)]
    struct Labels {
        reason: &'static str,
    }

    fn text(metric: impl prometheus_client::registry::Metric) -> String {
        let mut registry = Registry::default();
        registry.register("things", "Things", metric);
        let mut text = String::new();
        encode(&mut text, &registry).expect("memory takes everything");
        text
    }

    #[test]
    fn what_is_read_is_what_prometheus_reads() {
        let (ours, theirs) = (Labelled::<Labels, Counter>::default(), Family::<Labels, Counter>::default());
        assert_eq!(text(ours.clone()), text(theirs.clone()), "without any");
        for _ in 0..3 {
            ours.inc(&Labels { reason: "b" });
            theirs.get_or_create(&Labels { reason: "b" }).inc();
        }
        assert_eq!(text(ours.clone()), text(theirs));
        ours.inc(&Labels { reason: "a" });
        let counts =
            [("a", 1), ("b", 3)].map(|(reason, count)| LabelledCount { labels: Labels { reason }, count });
        assert_eq!(ours.counts(), counts, "in order");
        let shown = serde_json::to_string(&ours.counts()).expect("JSON");
        assert_eq!(shown, r#"[{"reason":"a","count":1},{"reason":"b","count":3}]"#);
    }
}
