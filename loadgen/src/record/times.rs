//! Durations, recorded in microseconds and reported in milliseconds.

use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::result::Distribution;

/// Maximum time that can be recorded. Longer times are recorded as this value.
const MAX_TIME: Duration = Duration::from_secs(3600);
const SIGNIFICANT_DIGITS: u8 = 3;
/// Significant digits of the histogram of one second, for a precision of 1 %. There are many seconds, so
/// their histograms are kept small.
const SECOND_DIGITS: u8 = 2;

/// Histogram of times, over the whole run and over the current second. Clones share the histogram.
#[derive(Clone, Debug)]
pub(crate) struct Times(Arc<Mutex<Histograms>>);

#[derive(Debug)]
struct Histograms {
    whole: Histogram<u64>,
    second: Histogram<u64>,
}

impl Default for Times {
    fn default() -> Self {
        let [whole, second] = [SIGNIFICANT_DIGITS, SECOND_DIGITS].map(empty);
        Self(Arc::new(Mutex::new(Histograms { whole, second })))
    }
}

fn empty(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, as_micros(MAX_TIME), digits)
        .expect("one microsecond to one hour is a valid range")
}

impl Times {
    pub(crate) fn record(&self, time: Duration) {
        let micros = as_micros(time);
        let Histograms { whole, second } = &mut *self.0.lock();
        whole.saturating_record(micros);
        second.saturating_record(micros);
    }

    pub(crate) fn summary(&self) -> Distribution {
        self.0.lock().whole.clone().into()
    }

    pub(super) fn add(&self, others: &Distribution) {
        self.0.lock().whole.add(others.micros()).expect("all histograms have the same bounds");
    }

    /// Returns the times recorded since the previous call.
    pub(super) fn take_second(&self) -> Distribution {
        std::mem::replace(&mut self.0.lock().second, empty(SECOND_DIGITS)).into()
    }
}

/// Latency measured in two ways. `from_due` counts from the time at which an operation was due, and therefore
/// includes the time spent waiting for a slow server or a slow loadgen. `from_start` counts from the actual
/// start and leaves that wait out. A large difference indicates coordinated omission.
#[derive(Clone, Debug)]
pub(crate) struct Latency {
    pub(super) from_due: Times,
    pub(super) from_start: Times,
}

impl Latency {
    pub(crate) fn record(&self, due: Instant, start: Instant, end: Instant) {
        self.from_due.record(end.saturating_duration_since(due));
        self.from_start.record(end.saturating_duration_since(start));
    }
}

fn as_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_times_are_clamped() {
        let times = Times::default();
        times.record(MAX_TIME * 100);
        let max = times.summary().percentiles().number("max").expect("it has a sample");
        assert!((3_600_000.0..3_605_000.0).contains(&max), "{max}");
    }

    #[test]
    fn latency_from_due_includes_the_wait() {
        let latency = Latency { from_due: Times::default(), from_start: Times::default() };
        let due = Instant::now();
        let start = due + Duration::from_millis(100);
        latency.record(due, start, start + Duration::from_millis(5));
        let near = |times: &Times, exact: f64| {
            let max = times.summary().percentiles().number("max").expect("there is a time");
            (max - exact).abs() < exact / 500.0
        };
        assert!(near(&latency.from_due, 105.0));
        assert!(near(&latency.from_start, 5.0));
    }
}
