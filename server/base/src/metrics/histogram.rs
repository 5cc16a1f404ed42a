use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

use crate::locks::Mutex;

/// A histogram of durations. Unlike prometheus-client's `Histogram`, its values can be read. Observing a
/// duration costs the same in both.
///
/// Clones share their counts.
#[derive(Clone, Debug)]
pub(super) struct DurationHistogram(Arc<Mutex<HistogramCounts>>);

#[derive(Debug)]
struct HistogramCounts {
    /// Sum of all durations, in seconds.
    sum: f64,
    count: u64,
    /// Upper bound of each bucket in seconds, and the number of durations in this bucket alone. The last
    /// bucket is unbounded.
    buckets: Box<[(f64, u64)]>,
}

impl DurationHistogram {
    /// Creates a histogram with these upper bounds, in seconds, and a last bucket for longer durations.
    pub(super) fn new(ends: impl Iterator<Item = f64>) -> Self {
        let buckets = ends.chain([f64::INFINITY]).map(|end| (end, 0)).collect();
        Self(Arc::new(Mutex::new(HistogramCounts { sum: 0.0, count: 0, buckets })))
    }

    pub(super) fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let mut counts = self.0.lock();
        counts.sum += seconds;
        counts.count += 1;
        if let Some((_, within)) = counts.buckets.iter_mut().find(|(end, _)| *end >= seconds) {
            *within += 1;
        }
    }

    /// Returns the upper bound of each bucket in milliseconds (`None` for the last bucket) and the number of
    /// durations up to that bound.
    pub(super) fn cumulative(&self) -> Vec<(Option<f64>, u64)> {
        let counts = self.0.lock();
        let mut total = 0;
        let up_to = counts.buckets.iter().map(|(end, within)| {
            total += within;
            (end.is_finite().then_some(end * 1e3), total)
        });
        up_to.collect()
    }
}

impl EncodeMetric for DurationHistogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let counts = self.0.lock();
        encoder.encode_histogram::<NoLabelSet>(counts.sum, counts.count, &counts.buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for DurationHistogram {
    const TYPE: MetricType = MetricType::Histogram;
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
    use prometheus_client::registry::{Metric, Registry};

    use super::*;

    fn text(metric: impl Metric) -> String {
        let mut registry = Registry::default();
        registry.register("rtt_seconds", "Round trips", metric);
        let mut text = String::new();
        encode(&mut text, &registry).expect("memory takes everything");
        text
    }

    #[test]
    fn what_is_read_is_what_prometheus_reads() {
        let ends = || exponential_buckets(0.000_5, 2.0, 3);
        let (ours, theirs) = (DurationHistogram::new(ends()), Histogram::new(ends()));
        for micros in [0, 1, 500, 501, 1_000, 1_999, 2_000, 2_001, 60_000_000] {
            let time = Duration::from_micros(micros);
            ours.observe(time);
            theirs.observe(time.as_secs_f64());
            assert_eq!(text(ours.clone()), text(theirs.clone()), "{micros}");
        }
        assert_eq!(ours.cumulative(), [(Some(0.5), 3), (Some(1.0), 5), (Some(2.0), 7), (None, 9)]);
    }
}
