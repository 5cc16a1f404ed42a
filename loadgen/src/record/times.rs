//! Durations, recorded in microseconds and reported in milliseconds.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use hdrhistogram::Histogram;
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
pub(crate) struct Times(Rc<Histograms>);

#[derive(Clone, Debug)]
struct Histograms {
    whole: RefCell<Histogram<u64>>,
    second: RefCell<Histogram<u64>>,
}

impl Default for Times {
    fn default() -> Self {
        let whole = Histogram::new_with_bounds(1, as_micros(MAX_TIME), SIGNIFICANT_DIGITS)
            .expect("one microsecond to one hour with three digits is a valid range");
        Self(Rc::new(Histograms { whole: RefCell::new(whole), second: RefCell::new(new_second()) }))
    }
}

/// Creates an empty histogram for the times of one second.
pub(super) fn new_second() -> Histogram<u64> {
    Histogram::new_with_bounds(1, as_micros(MAX_TIME), SECOND_DIGITS)
        .expect("one microsecond to one hour with two digits is a valid range")
}

impl Times {
    pub(crate) fn record(&self, time: Duration) {
        let micros = as_micros(time);
        self.0.whole.borrow_mut().saturating_record(micros);
        self.0.second.borrow_mut().saturating_record(micros);
    }

    /// Copies the histograms.
    fn snapshot(&self) -> Self {
        Self(Rc::new(Histograms::clone(&self.0)))
    }

    /// Returns the distribution of all times so far.
    pub(crate) fn summary(&self) -> Distribution {
        self.0.whole.borrow().clone().into()
    }

    pub(super) fn count(&self) -> u64 {
        self.0.whole.borrow().len()
    }

    /// Returns the longest time so far, in microseconds.
    pub(super) fn max_micros(&self) -> Option<u64> {
        let whole = self.0.whole.borrow();
        (!whole.is_empty()).then(|| whole.max())
    }

    /// Adds times measured by another process, which have the precision of a one-second histogram.
    pub(crate) fn add(&self, others: &Distribution) {
        for histogram in [&self.0.whole, &self.0.second] {
            histogram.borrow_mut().add(others.micros()).expect("all histograms have the same bounds");
        }
    }

    /// Adds the times recorded since the previous call to `into`.
    pub(super) fn take_second(&self, into: &mut Histogram<u64>) {
        let mut second = self.0.second.borrow_mut();
        into.add(&*second).expect("all seconds have the same bounds");
        second.reset();
    }
}

/// Latency measured in two ways. `from_due` counts from the time at which an operation was due, and therefore
/// includes the time spent waiting for a slow server or a slow loadgen. `from_start` counts from the actual
/// start and leaves that wait out. A large difference indicates coordinated omission.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latency {
    from_due: Times,
    from_start: Times,
}

impl Latency {
    pub(crate) fn record(&self, due: Instant, start: Instant, end: Instant) {
        self.from_due.record(end.saturating_duration_since(due));
        self.from_start.record(end.saturating_duration_since(start));
    }

    /// Copies the samples, so that others can be added to the copy without changing the original.
    pub(crate) fn snapshot(&self) -> Self {
        Self { from_due: self.from_due.snapshot(), from_start: self.from_start.snapshot() }
    }

    pub(crate) fn since_due(&self) -> Distribution {
        self.from_due.summary()
    }

    pub(crate) fn since_start(&self) -> Distribution {
        self.from_start.summary()
    }

    /// Returns both histograms with their names: `connect` yields `connect_ms` and `connect_from_start_ms`.
    pub(super) fn named(&self, name: &str) -> [(String, &Times); 2] {
        [(format!("{name}_ms"), &self.from_due), (format!("{name}_from_start_ms"), &self.from_start)]
    }
}

fn as_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_reported_in_milliseconds() {
        let times = Times::default();
        for micros in 1..=1000 {
            times.record(Duration::from_micros(micros));
        }
        let summary = times.summary();
        assert_eq!(summary.number("p50"), Ok(0.5));
        assert_eq!(summary.number("p99"), Ok(0.99));
        assert_eq!(summary.number("max"), Ok(1.0));
    }

    #[test]
    fn percentiles_need_samples() {
        assert!(Times::default().summary().number("p99").is_err());
    }

    #[test]
    fn long_times_are_clamped() {
        let times = Times::default();
        times.record(MAX_TIME * 100);
        let max = times.summary().number("max").expect("it has a sample");
        assert!((3_600_000.0..3_605_000.0).contains(&max), "{max}");
    }

    #[test]
    fn latency_from_due_includes_the_wait() {
        let latency = Latency::default();
        let due = Instant::now();
        let start = due + Duration::from_millis(100);
        latency.record(due, start, start + Duration::from_millis(5));
        let near = |times: Distribution, exact: f64| {
            (times.number("max").expect("the value exists") - exact).abs() < exact / 500.0
        };
        assert!(near(latency.since_due(), 105.0));
        assert!(near(latency.since_start(), 5.0));
    }

    #[test]
    fn each_second_has_its_own_times() {
        let times = Times::default();
        for count in [3, 0, 1] {
            (0..count).for_each(|_| times.record(Duration::from_millis(1)));
            let mut second = new_second();
            times.take_second(&mut second);
            assert_eq!(second.len(), count);
        }
        assert_eq!(times.count(), 4);
    }
}
