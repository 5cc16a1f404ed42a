//! Time series: everything that is counted and timed, with one sample per second.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use strum::EnumIter;

use super::distribution::Distribution;
use super::series_text::{SampleText, SeriesText};

/// Maximum number of samples: two hours. Above this, neighbours are merged, repeatedly if needed.
const MAX_SAMPLES: usize = 7200;
/// Maximum number of columns, because the server chooses the close codes. Additional columns are left out.
const MAX_COLUMNS: usize = 256;
/// Minimum length of a sample. A shorter one is merged with the previous sample, because its rates would be
/// noise.
const MIN_SAMPLE_SECONDS: f64 = 0.5;
/// Percentiles of the times recorded during one sample.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// Meaning of a column's values, which determines how neighbours are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter)]
pub(crate) enum ColumnKind {
    /// Value at the end of the sample. Merging keeps the later one.
    Gauge,
    /// Number of events during the sample. Merging adds them up.
    Count,
    /// Percentile, in milliseconds, of times recorded during the sample. Merging keeps the higher one.
    Time,
}

impl ColumnKind {
    fn merge(self, earlier: Option<f64>, later: Option<f64>) -> Option<f64> {
        match (self, earlier, later) {
            (Self::Gauge, earlier, later) => later.or(earlier),
            (Self::Count, Some(earlier), Some(later)) => Some(earlier + later),
            (Self::Time, Some(earlier), Some(later)) => Some(earlier.max(later)),
            (Self::Count | Self::Time, earlier, later) => earlier.or(later),
        }
    }
}

/// Values sampled at the same time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(into = "SampleText")]
pub(crate) struct Sample {
    /// End of the sample, in seconds since the start.
    pub(crate) t: f64,
    pub(crate) values: Vec<(ColumnKind, String, Option<f64>)>,
}

/// Samples in columns of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SeriesText", into = "SeriesText")]
pub(crate) struct Series {
    pub(super) t: Vec<f64>,
    pub(super) columns: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) kind: ColumnKind,
    pub(crate) name: String,
    pub(crate) values: Vec<Option<f64>>,
}

impl Sample {
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|(_, known, _)| known == name).and_then(|(_, _, value)| *value)
    }
}

impl Sample {
    /// Adds the count of `times`, and the percentiles if there are any times.
    #[expect(clippy::cast_precision_loss, reason = "no count and no time in microseconds comes near 2^53")]
    pub(crate) fn add_times(&mut self, name: &str, times: &Distribution) {
        let micros = times.micros();
        let if_any = |millis: f64| (!micros.is_empty()).then_some(millis);
        self.values.push((ColumnKind::Count, format!("{name}.count"), Some(micros.len() as f64)));
        for (percentile, quantile) in PERCENTILES {
            self.values.push((ColumnKind::Time, format!("{name}.{percentile}"), if_any(times.at(quantile))));
        }
        self.values.push((ColumnKind::Time, format!("{name}.max"), if_any(micros.max() as f64 / 1e3)));
    }
}

impl Series {
    pub(crate) fn push(&mut self, sample: &Sample) {
        self.push_unmerged(sample);
        let count = self.t.len();
        let previous = count.checked_sub(2).map_or(f64::MIN, |index| self.t[index]);
        if sample.t - previous < MIN_SAMPLE_SECONDS {
            self.merge_at(count - 2);
        }
    }

    /// Appends a sample without merging it, even if it is short.
    pub(crate) fn push_unmerged(&mut self, sample: &Sample) {
        let before = self.t.len();
        self.t.push(sample.t);
        for (kind, name, value) in &sample.values {
            let known = self.columns.iter().position(|column| column.kind == *kind && column.name == *name);
            let Some(index) = known.or_else(|| self.add_column(*kind, name, before)) else { continue };
            self.columns[index].values.push(*value);
        }
        for column in &mut self.columns {
            column.values.resize(before + 1, None);
        }
        if self.t.len() > MAX_SAMPLES {
            self.halve();
        }
    }

    fn add_column(&mut self, kind: ColumnKind, name: &str, samples: usize) -> Option<usize> {
        if self.columns.len() == MAX_COLUMNS {
            return None;
        }
        self.columns.push(Column { kind, name: name.to_owned(), values: vec![None; samples] });
        Some(self.columns.len() - 1)
    }

    /// Merges the sample at this index with the next one.
    fn merge_at(&mut self, index: usize) {
        self.t.remove(index);
        for Column { kind, values, .. } in &mut self.columns {
            let earlier = values.remove(index);
            values[index] = kind.merge(earlier, values[index]);
        }
    }

    fn halve(&mut self) {
        self.t = self.t.chunks(2).filter_map(|pair| pair.last().copied()).collect();
        for Column { kind, values, .. } in &mut self.columns {
            *values = values
                .chunks(2)
                .map(|pair| pair.iter().copied().reduce(|one, other| kind.merge(one, other)).flatten())
                .collect();
        }
    }

    /// Adds gauges from another series, whose clock began `earlier` seconds before this one's. Each sample
    /// gets the highest of the values taken since the previous sample, up to and including the first value
    /// taken at or after this sample, so that peaks are kept.
    #[must_use]
    pub(crate) fn with_gauges_of(
        mut self,
        other: &Self,
        earlier: f64,
        is_selected: impl Fn(&str) -> bool,
    ) -> Self {
        let mut from = 0;
        let same_time = |t: &f64| {
            let last =
                other.t.partition_point(|others| others - earlier < *t).min(other.t.len().checked_sub(1)?);
            Some(std::mem::replace(&mut from, last + 1).min(last)..=last)
        };
        let ranges: Vec<_> = self.t.iter().map(same_time).collect();
        for Column { kind, name, values } in other.columns.iter().filter(|column| is_selected(&column.name)) {
            let value = |range: &Option<RangeInclusive<usize>>| {
                let values = &values[range.clone()?];
                values.last()?.and_then(|_| values.iter().copied().flatten().reduce(f64::max))
            };
            let values = ranges.iter().map(value).collect();
            self.columns.push(Column { kind: *kind, name: name.clone(), values });
        }
        self
    }

    /// Returns the ends of the samples, in seconds since the start.
    pub(crate) fn t(&self) -> &[f64] {
        &self.t
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(crate) fn column(&self, kind: ColumnKind, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.kind == kind && column.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(t: f64, connections: f64, errors: f64, p99: Option<f64>) -> Sample {
        let values = vec![
            (ColumnKind::Gauge, "connections".to_owned(), Some(connections)),
            (ColumnKind::Count, "errors".to_owned(), Some(errors)),
            (ColumnKind::Time, "connect_ms.p99".to_owned(), p99),
        ];
        Sample { t, values }
    }

    fn values<'a>(series: &'a Series, name: &str) -> &'a [Option<f64>] {
        &series.columns().iter().find(|column| column.name == name).expect("the value exists").values
    }

    #[test]
    fn a_short_last_sample_is_merged_with_the_previous_one() {
        let mut series = Series::default();
        series.push(&sample(1.0, 5.0, 1.0, Some(7.0)));
        series.push(&sample(2.0, 6.0, 1.0, None));
        series.push(&sample(2.4, 3.0, 2.0, Some(1.0)));
        assert_eq!(series.t(), [1.0, 2.4]);
        assert_eq!(values(&series, "connections"), [Some(5.0), Some(3.0)]);
        assert_eq!(values(&series, "errors"), [Some(1.0), Some(3.0)]);
        assert_eq!(values(&series, "connect_ms.p99"), [Some(7.0), Some(1.0)]);
    }

    #[test]
    fn a_late_column_is_null_before() {
        let mut series = Series::default();
        series.push(&Sample { t: 1.0, values: Vec::new() });
        series.push(&sample(2.0, 6.0, 1.0, None));
        series.push(&Sample { t: 3.0, values: Vec::new() });
        assert_eq!(values(&series, "errors"), [None, Some(1.0), None]);
    }

    #[test]
    fn a_long_run_is_merged_without_losing_counts() {
        let mut series = Series::default();
        let seconds = 3 * MAX_SAMPLES;
        for (second, t) in (0..seconds).zip(1_u32..) {
            let worst = if second == 777 { 9.0 } else { 1.0 };
            series.push(&sample(f64::from(t), f64::from(t), 1.0, Some(worst)));
            assert!(series.t().len() <= MAX_SAMPLES);
        }
        let errors: f64 = values(&series, "errors").iter().flatten().sum();
        assert_eq!(errors, f64::from(u32::try_from(seconds).expect("it fits")));
        assert!(values(&series, "connect_ms.p99").contains(&Some(9.0)), "the worst second is kept");
        assert_eq!(values(&series, "connections").last(), Some(&series.t().last().copied()));
    }

    #[test]
    fn copied_columns_have_the_same_length() {
        let of = |seconds: u32, name: &str| {
            let mut series = Series::default();
            for second in 1..=seconds {
                let values = vec![(ColumnKind::Gauge, name.to_owned(), Some(7.0))];
                series.push(&Sample { t: f64::from(second), values });
            }
            series
        };
        for length in [1, 3] {
            let both =
                of(2, "connections").with_gauges_of(&of(length, "server.x"), 0.0, |name| name == "server.x");
            assert_eq!(both.columns().len(), 2);
            assert!(both.columns().iter().all(|column| column.values.len() == 2));
        }
    }

    #[test]
    fn copied_gauges_are_those_of_the_same_time() {
        let of = |samples: &[(f64, Option<f64>)]| {
            let mut series = Series::default();
            for (t, value) in samples {
                series.push_unmerged(&Sample {
                    t: *t,
                    values: vec![(ColumnKind::Gauge, "x".to_owned(), *value)],
                });
            }
            series
        };
        let ours = of(&[(1.0, None), (2.0, None), (2.1, None), (3.0, None), (4.0, None)]);
        let theirs = of(&[
            (1.5, Some(1.0)),
            (2.4, Some(2.0)),
            (2.5, Some(9.0)),
            (2.6, Some(3.0)),
            (3.6, Some(4.0)),
            (4.6, None),
        ]);
        let both = ours.with_gauges_of(&theirs, 0.5, |_| true);
        // The value 9.0, taken at 2.0, stays in the sample of that time; the value 2.0, taken at 1.9, is left
        // out.
        assert_eq!(both.columns[1].values, [Some(1.0), Some(9.0), Some(3.0), Some(4.0), None]);
    }

    #[test]
    fn the_number_of_columns_is_limited() {
        let mut series = Series::default();
        for index in 0..2 * MAX_COLUMNS {
            let values = vec![(ColumnKind::Count, format!("closes.{index}"), Some(1.0))];
            series.push(&Sample { t: f64::from(u16::try_from(index).expect("it fits")), values });
        }
        assert_eq!(series.columns().len(), MAX_COLUMNS);
    }
}
