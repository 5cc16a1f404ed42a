use std::sync::atomic::AtomicU64;
use std::time::Duration;

use encke_core::session::Deadline;
use hdrhistogram::Histogram as Percentiles;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use crate::locks::Mutex;

/// Highest lateness, in microseconds, that the percentiles of `/api/timers` cover: one hour. The percentiles
/// have two significant digits.
const PERCENTILES_HIGHEST: u64 = 3_600_000_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct DeadlineLabels {
    deadline: &'static str,
}

/// Metrics of the wheel, of expiries, and of their dispatch to the workers.
#[derive(Debug)]
pub struct TimerMetrics {
    pub(super) expiries: Family<DeadlineLabels, Counter>,
    /// Counters for each session deadline. The fields below count sleeps, the age of logs, and reminders.
    deadline_expiries: [Counter; Deadline::ALL.len()],
    sleep_expiries: Counter,
    log_expiries: Counter,
    reminder_expiries: Counter,
    pub(super) lateness: Histogram,
    lateness_percentiles: Mutex<Percentiles<u64>>,
    pub(super) entries: Gauge,
    pub(super) stalls: Counter,
    pub(super) dispatch_depth: Gauge,
    pub(super) dispatch_age: Gauge<f64, AtomicU64>,
    pub(super) dispatch_delay: Histogram,
    pub(super) worker_panics: Counter,
}

/// Lateness of expiries.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Lateness {
    /// Number of measured expiries.
    pub count: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    /// Maximum lateness, in milliseconds.
    pub max_ms: f64,
}

impl TimerMetrics {
    pub(super) fn new() -> Self {
        let expiries = Family::<DeadlineLabels, Counter>::default();
        let counter = |deadline| expiries.get_or_create(&DeadlineLabels { deadline }).clone();
        let percentiles = Percentiles::new_with_max(PERCENTILES_HIGHEST, 2);
        Self {
            deadline_expiries: Deadline::ALL.map(|which| counter(which.as_str())),
            sleep_expiries: counter("sleep"),
            log_expiries: counter("log"),
            reminder_expiries: counter("reminder"),
            expiries,
            lateness: Histogram::new(exponential_buckets(0.001, 2.0, 14)),
            lateness_percentiles: Mutex::new(percentiles.expect("two digits fit the range")),
            entries: Gauge::default(),
            stalls: Counter::default(),
            dispatch_depth: Gauge::default(),
            dispatch_age: Gauge::default(),
            dispatch_delay: Histogram::new(exponential_buckets(0.000_05, 2.0, 16)),
            worker_panics: Counter::default(),
        }
    }

    #[inline]
    pub fn deadline_fired(&self, deadline: Deadline, lateness: Duration) {
        self.deadline_expiries[deadline as usize].inc();
        self.observe_lateness(lateness);
    }

    // Inlined because it is called for every ping.
    #[inline]
    fn observe_lateness(&self, lateness: Duration) {
        self.lateness.observe(lateness.as_secs_f64());
        let micros = u64::try_from(lateness.as_micros()).unwrap_or(u64::MAX);
        self.lateness_percentiles.lock().saturating_record(micros);
    }

    pub fn sleep_fired(&self) {
        self.sleep_expiries.inc();
    }

    pub fn log_fired(&self) {
        self.log_expiries.inc();
    }

    pub fn reminder_fired(&self, lateness: Duration) {
        self.reminder_expiries.inc();
        self.observe_lateness(lateness);
    }

    /// Returns the lateness of all expiries since the start.
    #[must_use]
    pub fn lateness(&self) -> Lateness {
        let percentiles = self.lateness_percentiles.lock();
        let at = |quantile| millis(percentiles.value_at_quantile(quantile));
        Lateness {
            count: percentiles.len(),
            p50_ms: at(0.5),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: millis(percentiles.max()),
        }
    }

    /// Returns the name of each deadline and how often it has expired.
    pub fn expiries(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let deadlines =
            Deadline::ALL.iter().map(|which| (which.as_str(), &self.deadline_expiries[*which as usize]));
        let others = [
            ("sleep", &self.sleep_expiries),
            ("log", &self.log_expiries),
            ("reminder", &self.reminder_expiries),
        ];
        deadlines.chain(others).map(|(name, counter)| (name, counter.get()))
    }

    pub fn batch_received(&self, delay: Duration) {
        self.dispatch_delay.observe(delay.as_secs_f64());
    }
}

#[expect(clippy::cast_precision_loss, reason = "an hour of microseconds is far below 2^53")]
fn millis(micros: u64) -> f64 {
    micros as f64 / 1_000.0
}
