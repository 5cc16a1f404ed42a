use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AskLabels {
    ask: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct AskOutcomeLabels {
    ask: &'static str,
    outcome: &'static str,
}

/// Questions to the backend. Without one all stay at zero.
#[derive(Debug)]
pub(crate) struct BackendMetrics {
    pub(super) asked: Family<AskOutcomeLabels, Counter>,
    pub(super) seconds: Family<AskLabels, Histogram, fn() -> Histogram>,
    pub(super) in_flight: Gauge,
    pub(super) open: Family<AskLabels, Gauge>,
}

impl BackendMetrics {
    /// It is asked this, and one of these comes of it: all are shown from here on.
    pub(crate) fn begin(&self, ask: &'static str, outcomes: impl Iterator<Item = &'static str>) {
        for outcome in outcomes {
            drop(self.asked.get_or_create(&AskOutcomeLabels { ask, outcome }));
        }
        drop(self.seconds.get_or_create(&AskLabels { ask }));
        drop(self.open.get_or_create(&AskLabels { ask }));
    }

    /// A question has come to this.
    pub(crate) fn asked(&self, ask: &'static str, outcome: &'static str) {
        self.asked.get_or_create(&AskOutcomeLabels { ask, outcome }).inc();
    }

    /// So long after it was sent.
    pub(crate) fn took(&self, ask: &'static str, time: Duration) {
        self.seconds.get_or_create(&AskLabels { ask }).observe(time.as_secs_f64());
    }

    /// So many are under way.
    pub(crate) fn in_flight(&self, questions: usize) {
        self.in_flight.set(super::as_gauge(questions));
    }

    /// How many are under way.
    pub(crate) fn in_flight_now(&self) -> usize {
        self.in_flight.get().try_into().unwrap_or_default()
    }

    /// The circuit breaker has opened, or closed.
    pub(crate) fn opened(&self, ask: &'static str, open: bool) {
        self.open.get_or_create(&AskLabels { ask }).set(i64::from(open));
    }
}

impl Default for BackendMetrics {
    fn default() -> Self {
        // From half a millisecond to 16 seconds.
        let seconds = || Histogram::new(exponential_buckets(0.000_5, 2.0, 16));
        Self {
            asked: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            in_flight: Gauge::default(),
            open: Family::default(),
        }
    }
}
