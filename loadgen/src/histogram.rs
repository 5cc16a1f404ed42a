//! Distributions of times: recorded in microseconds, told in milliseconds.

use std::cell::RefCell;
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::report::{Group, millis};

/// Longer times than this are recorded as this.
const HIGHEST: Duration = Duration::from_secs(3600);
const SIGNIFICANT_DIGITS: u8 = 3;

/// How long things took.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    micros: RefCell<Histogram<u64>>,
}

impl Default for Times {
    fn default() -> Self {
        let micros = Histogram::new_with_bounds(1, as_micros(HIGHEST), SIGNIFICANT_DIGITS)
            .expect("one microsecond to one hour with three digits is a valid range");
        Self { micros: RefCell::new(micros) }
    }
}

impl Times {
    pub(crate) fn record(&self, time: Duration) {
        self.micros.borrow_mut().saturating_record(as_micros(time));
    }

    /// `p50`, `p99` and `max`; null as long as there is nothing to tell.
    pub(crate) fn summary(&self) -> Group {
        let micros = self.micros.borrow();
        let told = |micros_value| (!micros.is_empty()).then(|| millis(Duration::from_micros(micros_value)));
        Group::default()
            .with("p50", told(micros.value_at_quantile(0.50)))
            .with("p99", told(micros.value_at_quantile(0.99)))
            .with("max", told(micros.max()))
    }
}

fn as_micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_milliseconds_with_microseconds() {
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
    fn without_samples_there_is_no_number() {
        assert!(Times::default().summary().number("p99").is_err());
    }

    #[test]
    fn what_is_too_long_is_recorded_as_the_longest() {
        let times = Times::default();
        times.record(HIGHEST * 100);
        let max = times.summary().number("max").expect("there is a sample");
        assert!((3_600_000.0..3_605_000.0).contains(&max), "{max}");
    }
}
