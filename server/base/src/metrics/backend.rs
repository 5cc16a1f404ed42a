use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::gauge::as_gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct HookLabels {
    hook: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct HookOutcomeLabels {
    hook: &'static str,
    outcome: &'static str,
}

/// Metrics of requests to the backend. Without a backend, all of them stay at zero.
#[derive(Debug)]
pub struct BackendMetrics {
    pub(super) requests: Family<HookOutcomeLabels, Counter>,
    pub(super) seconds: Family<HookLabels, Histogram, fn() -> Histogram>,
    pub(super) in_flight: Gauge,
    pub(super) circuit_open: Family<HookLabels, Gauge>,
}

impl BackendMetrics {
    /// Creates the metrics of a hook for all of its outcomes, so that they are exported even while they are
    /// 0.
    pub fn create_series(&self, hook: &'static str, outcomes: impl Iterator<Item = &'static str>) {
        for outcome in outcomes {
            drop(self.requests.get_or_create(&HookOutcomeLabels { hook, outcome }));
        }
        drop(self.seconds.get_or_create(&HookLabels { hook }));
        drop(self.circuit_open.get_or_create(&HookLabels { hook }));
    }

    /// Counts a finished request.
    pub fn request_finished(&self, hook: &'static str, outcome: &'static str) {
        self.requests.get_or_create(&HookOutcomeLabels { hook, outcome }).inc();
    }

    /// Records how long a request took.
    pub fn observe_duration(&self, hook: &'static str, time: Duration) {
        self.seconds.get_or_create(&HookLabels { hook }).observe(time.as_secs_f64());
    }

    pub fn set_in_flight(&self, questions: usize) {
        self.in_flight.set(as_gauge(questions));
    }

    pub fn current_in_flight(&self) -> usize {
        self.in_flight.get().try_into().unwrap_or_default()
    }

    /// Records whether the circuit breaker is open.
    pub fn set_circuit_open(&self, hook: &'static str, open: bool) {
        self.circuit_open.get_or_create(&HookLabels { hook }).set(i64::from(open));
    }
}

impl Default for BackendMetrics {
    fn default() -> Self {
        // Use buckets from 0.5 ms to 16 s.
        let seconds = || Histogram::new(exponential_buckets(0.000_5, 2.0, 16));
        Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            in_flight: Gauge::default(),
            circuit_open: Family::default(),
        }
    }
}
