//! Distributions and series of processes that ran at the same time, added up.

use super::distribution::Distribution;
use super::series::{Column, Kind, Series};

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
    /// The n-th sample of all of them is the n-th of the sum: gauges and counts are added up, of percentiles and of lags
    /// the worst stands.
    pub(crate) fn merged(parts: &[&Self]) -> Self {
        let mut sum = Self::default();
        for part in parts {
            for (index, t) in part.t.iter().enumerate() {
                match sum.t.get_mut(index) {
                    Some(latest) => *latest = latest.max(*t),
                    None => sum.t.push(*t),
                }
            }
        }
        for Column { kind, name, values } in parts.iter().flat_map(|part| &part.columns) {
            let known = sum.columns.iter().position(|it| it.kind == *kind && it.name == *name);
            let index = known.unwrap_or_else(|| {
                sum.columns.push(Column { kind: *kind, name: name.clone(), values: vec![None; sum.t.len()] });
                sum.columns.len() - 1
            });
            for (sum, value) in sum.columns[index].values.iter_mut().zip(values) {
                *sum = kind.sum(name, *sum, *value);
            }
        }
        sum
    }

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
    /// Of the same column in two processes.
    pub(crate) fn sum(self, name: &str, one: Option<f64>, other: Option<f64>) -> Option<f64> {
        let both = one.into_iter().chain(other);
        if self == Self::Time || name.contains("lag_ms") {
            both.reduce(f64::max)
        } else {
            both.reduce(|a, b| a + b)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Sample;

    fn series(rows: &[(f64, f64, Option<f64>)], more: Option<&str>) -> Series {
        let mut series = Series::default();
        for (t, count, p99) in rows {
            let mut values = vec![
                (Kind::Gauge, "connections".to_owned(), Some(*count)),
                (Kind::Gauge, "loadgen.lag_ms".to_owned(), Some(*count)),
                (Kind::Count, "errors".to_owned(), Some(*count)),
                (Kind::Time, "connect_ms.p99".to_owned(), *p99),
            ];
            values.extend(more.map(|name| (Kind::Count, name.to_owned(), Some(1.0))));
            series.push(&Sample { t: *t, values });
        }
        series
    }

    #[test]
    fn samples_are_added_up_one_by_one() {
        let one = series(&[(1.0, 2.0, Some(5.0)), (2.0, 3.0, None)], None);
        let other = series(
            &[(1.01, 10.0, Some(4.0)), (2.0, 20.0, Some(1.0)), (3.0, 30.0, None)],
            Some("closes.4000"),
        );
        let sum = Series::merged(&[&one, &other]);
        assert_eq!(sum.t(), [1.01, 2.0, 3.0]);
        let values = |kind, name: &str| sum.column(kind, name).expect("it is there").values.clone();
        assert_eq!(values(Kind::Gauge, "connections"), [Some(12.0), Some(23.0), Some(30.0)]);
        assert_eq!(values(Kind::Gauge, "loadgen.lag_ms"), [Some(10.0), Some(20.0), Some(30.0)]);
        assert_eq!(values(Kind::Count, "errors"), [Some(12.0), Some(23.0), Some(30.0)]);
        assert_eq!(values(Kind::Time, "connect_ms.p99"), [Some(5.0), Some(1.0), None]);
        assert_eq!(values(Kind::Count, "closes.4000"), [Some(1.0), Some(1.0), Some(1.0)]);
        assert_eq!(Series::merged(&[]), Series::default());
    }

    #[test]
    fn columns_of_another_are_as_long_as_ours() {
        let ours = series(&[(1.0, 1.0, None), (2.0, 1.0, None)], None);
        for length in [1, 3] {
            let rows: Vec<_> = (1..=length).map(|second| (f64::from(second), 7.0, None)).collect();
            let theirs = series(&rows, Some("server.x"));
            let both = ours.clone().with_columns_of(&theirs, |name| name == "server.x");
            assert_eq!(both.columns().len(), ours.columns().len() + 1);
            assert!(both.columns().iter().all(|column| column.values.len() == 2));
        }
    }
}
