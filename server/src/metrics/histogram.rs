use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// Durations by how long they were: prometheus-client's `Histogram`, which can also be read here. To observe one costs the same.
///
/// A clone counts into the same.
#[derive(Clone, Debug)]
pub(super) struct Durations(Arc<Mutex<Counts>>);

#[derive(Debug)]
struct Counts {
    /// In seconds.
    sum: f64,
    count: u64,
    /// The longest of each bucket, in seconds, and how many are in it and in no shorter one. The last is without an end.
    buckets: Box<[(f64, u64)]>,
}

impl Durations {
    /// Buckets that end at so many seconds, and one for what is longer.
    pub(super) fn new(ends: impl Iterator<Item = f64>) -> Self {
        let buckets = ends.chain([f64::INFINITY]).map(|end| (end, 0)).collect();
        Self(Arc::new(Mutex::new(Counts { sum: 0.0, count: 0, buckets })))
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

    /// The end of each bucket in milliseconds, nothing for the last, and how many were no longer than that.
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

impl EncodeMetric for Durations {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let counts = self.0.lock();
        encoder.encode_histogram::<NoLabelSet>(counts.sum, counts.count, &counts.buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for Durations {
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
        let (ours, theirs) = (Durations::new(ends()), Histogram::new(ends()));
        for micros in [0, 1, 500, 501, 1_000, 1_999, 2_000, 2_001, 60_000_000] {
            let time = Duration::from_micros(micros);
            ours.observe(time);
            theirs.observe(time.as_secs_f64());
            assert_eq!(text(ours.clone()), text(theirs.clone()), "{micros}");
        }
        assert_eq!(ours.cumulative(), [(Some(0.5), 3), (Some(1.0), 5), (Some(2.0), 7), (None, 9)]);
    }
}
