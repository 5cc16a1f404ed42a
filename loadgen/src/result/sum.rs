//! Distributions and series of processes that ran at the same time, added up.

use super::distribution::Distribution;
use super::series::{Kind, Series};

impl Distribution {
    /// The distribution of all their values, exactly. None without one, or if they cannot be added up.
    pub(crate) fn sum_of(all: &[&Self]) -> Option<Self> {
        let (first, rest) = all.split_first()?;
        let mut sum = first.micros().clone();
        for other in rest {
            sum.add(other.micros()).ok()?;
        }
        Some(sum.into())
    }
}

impl Series {
    /// The same with columns of another series, sampled at about the same instants.
    #[must_use]
    pub(crate) fn with_columns_of(mut self, other: &Self, wanted: impl Fn(&str) -> bool) -> Self {
        for column in other.columns.iter().filter(|column| wanted(&column.name)) {
            let mut column = column.clone();
            column.values.resize(self.t.len(), None);
            self.columns.push(column);
        }
        self
    }
}

impl Kind {
    /// Of the same gauge or count in two processes: added up, but of lags the worse stands. (Percentiles cannot be had from percentiles.)
    pub(crate) fn sum(self, name: &str, one: Option<f64>, other: Option<f64>) -> Option<f64> {
        let both = one.into_iter().chain(other);
        if name.contains("lag_ms") { both.reduce(f64::max) } else { both.reduce(|a, b| as_decimals(a + b)) }
    }
}

/// Back to the decimals that both have had.
fn as_decimals(sum: f64) -> f64 {
    if sum.fract() == 0.0 { sum } else { (sum * 1e6).round() / 1e6 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Sample;

    fn series(seconds: u32, name: &str) -> Series {
        let mut series = Series::default();
        for second in 1..=seconds {
            let values = vec![(Kind::Gauge, name.to_owned(), Some(7.0))];
            series.push(&Sample { t: f64::from(second), values });
        }
        series
    }

    #[test]
    fn lags_are_those_of_the_worst_and_all_else_adds_up() {
        let sum = |kind: Kind, name: &str| kind.sum(name, Some(2.0), Some(3.0));
        assert_eq!(sum(Kind::Gauge, "connections"), Some(5.0));
        assert_eq!(Kind::Gauge.sum("loadgen.cores", Some(0.1), Some(0.2)), Some(0.3));
        assert_eq!(sum(Kind::Gauge, "loadgen.lag_ms"), Some(3.0));
        assert_eq!(sum(Kind::Count, "errors"), Some(5.0));
        assert_eq!(Kind::Count.sum("errors", None, Some(3.0)), Some(3.0));
        assert_eq!(Kind::Gauge.sum("backlog", None, None), None);
    }

    #[test]
    fn columns_of_another_are_as_long_as_ours() {
        let ours = series(2, "connections");
        for length in [1, 3] {
            let theirs = series(length, "server.x");
            let both = ours.clone().with_columns_of(&theirs, |name| name == "server.x");
            assert_eq!(both.columns().len(), 2);
            assert!(both.columns().iter().all(|column| column.values.len() == 2));
        }
    }
}
