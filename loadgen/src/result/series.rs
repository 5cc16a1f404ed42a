//! One sample a second of everything that is counted and timed.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};
use strum::EnumIter;

use super::distribution::Distribution;
use super::series_text::{SampleText, SeriesText};

/// Two hours of seconds. Past that, neighbours are put together, as often as needed.
const MAX_SAMPLES: usize = 7200;
/// More columns than these are left out: close codes are the server's to choose.
const MAX_COLUMNS: usize = 256;
/// A shorter sample than this is put to the one before, or its rates would be noise.
const SHORTEST_SECONDS: f64 = 0.5;
/// Of what ended during one sample.
const PERCENTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

/// What a column's values mean, and so how neighbours are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter)]
pub(crate) enum Kind {
    /// What it was at the end of the sample; the later one stands.
    Gauge,
    /// How many there were during the sample; they add up.
    Count,
    /// A percentile, in milliseconds, of what ended during the sample; the worse one stands.
    Time,
}

impl Kind {
    fn merge(self, earlier: Option<f64>, later: Option<f64>) -> Option<f64> {
        match (self, earlier, later) {
            (Self::Gauge, earlier, later) => later.or(earlier),
            (Self::Count, Some(earlier), Some(later)) => Some(earlier + later),
            (Self::Time, Some(earlier), Some(later)) => Some(earlier.max(later)),
            (Self::Count | Self::Time, earlier, later) => earlier.or(later),
        }
    }
}

/// What was sampled at one instant.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(into = "SampleText")]
pub(crate) struct Sample {
    /// When it ended, in seconds since the start.
    pub(crate) t: f64,
    pub(crate) values: Vec<(Kind, String, Option<f64>)>,
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
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) values: Vec<Option<f64>>,
}

impl Sample {
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|(_, known, _)| known == name).and_then(|(_, _, value)| *value)
    }
}

impl Sample {
    /// How many there were, and the percentiles if there were any.
    #[expect(clippy::cast_precision_loss, reason = "no count and no time in microseconds comes near 2^53")]
    pub(crate) fn add_times(&mut self, name: &str, times: &Distribution) {
        let micros = times.micros();
        let told = |millis: f64| (!micros.is_empty()).then_some(millis);
        self.values.push((Kind::Count, format!("{name}.count"), Some(micros.len() as f64)));
        for (percentile, quantile) in PERCENTILES {
            self.values.push((Kind::Time, format!("{name}.{percentile}"), told(times.at(quantile))));
        }
        self.values.push((Kind::Time, format!("{name}.max"), told(micros.max() as f64 / 1e3)));
    }
}

impl Series {
    pub(crate) fn push(&mut self, sample: &Sample) {
        self.push_apart(sample);
        let count = self.t.len();
        let previous = count.checked_sub(2).map_or(f64::MIN, |index| self.t[index]);
        if sample.t - previous < SHORTEST_SECONDS {
            self.merge_at(count - 2);
        }
    }

    /// A sample that stays apart however short it is.
    pub(crate) fn push_apart(&mut self, sample: &Sample) {
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

    fn add_column(&mut self, kind: Kind, name: &str, samples: usize) -> Option<usize> {
        if self.columns.len() == MAX_COLUMNS {
            return None;
        }
        self.columns.push(Column { kind, name: name.to_owned(), values: vec![None; samples] });
        Some(self.columns.len() - 1)
    }

    /// Puts the sample at this index and the next together.
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

    /// The same with gauges of another series, whose clock began so many seconds earlier. A sample gets the first of the other's
    /// that was not taken before it, and the highest of those that would be left out: peaks stay.
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

    /// The ends of the samples, in seconds since the start.
    pub(crate) fn t(&self) -> &[f64] {
        &self.t
    }

    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    pub(crate) fn column(&self, kind: Kind, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.kind == kind && column.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(t: f64, connections: f64, errors: f64, p99: Option<f64>) -> Sample {
        let values = vec![
            (Kind::Gauge, "connections".to_owned(), Some(connections)),
            (Kind::Count, "errors".to_owned(), Some(errors)),
            (Kind::Time, "connect_ms.p99".to_owned(), p99),
        ];
        Sample { t, values }
    }

    fn values<'a>(series: &'a Series, name: &str) -> &'a [Option<f64>] {
        &series.columns().iter().find(|column| column.name == name).expect("it is there").values
    }

    #[test]
    fn a_short_last_sample_belongs_to_the_one_before() {
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
    fn a_column_that_comes_late_was_nothing_before() {
        let mut series = Series::default();
        series.push(&Sample { t: 1.0, values: Vec::new() });
        series.push(&sample(2.0, 6.0, 1.0, None));
        series.push(&Sample { t: 3.0, values: Vec::new() });
        assert_eq!(values(&series, "errors"), [None, Some(1.0), None]);
    }

    #[test]
    fn a_long_run_takes_no_more_room_and_loses_no_count() {
        let mut series = Series::default();
        let seconds = 3 * MAX_SAMPLES;
        for (second, t) in (0..seconds).zip(1_u32..) {
            let worst = if second == 777 { 9.0 } else { 1.0 };
            series.push(&sample(f64::from(t), f64::from(t), 1.0, Some(worst)));
            assert!(series.t().len() <= MAX_SAMPLES);
        }
        let errors: f64 = values(&series, "errors").iter().flatten().sum();
        assert_eq!(errors, f64::from(u32::try_from(seconds).expect("it is small")));
        assert!(values(&series, "connect_ms.p99").contains(&Some(9.0)), "the worst second still shows");
        assert_eq!(values(&series, "connections").last(), Some(&series.t().last().copied()));
    }

    #[test]
    fn columns_of_another_are_as_long_as_ours() {
        let of = |seconds: u32, name: &str| {
            let mut series = Series::default();
            for second in 1..=seconds {
                let values = vec![(Kind::Gauge, name.to_owned(), Some(7.0))];
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
    fn gauges_of_another_are_those_of_the_same_time() {
        let of = |samples: &[(f64, Option<f64>)]| {
            let mut series = Series::default();
            for (t, value) in samples {
                series.push_apart(&Sample { t: *t, values: vec![(Kind::Gauge, "x".to_owned(), *value)] });
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
        // What was 9 at 2.0 is so there, and 2 at 1.9 is left out.
        assert_eq!(both.columns[1].values, [Some(1.0), Some(9.0), Some(3.0), Some(4.0), None]);
    }

    #[test]
    fn there_are_no_more_columns_than_allowed() {
        let mut series = Series::default();
        for index in 0..2 * MAX_COLUMNS {
            let values = vec![(Kind::Count, format!("closes.{index}"), Some(1.0))];
            series.push(&Sample { t: f64::from(u16::try_from(index).expect("it is small")), values });
        }
        assert_eq!(series.columns().len(), MAX_COLUMNS);
    }
}
