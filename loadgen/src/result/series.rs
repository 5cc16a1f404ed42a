//! Time series: everything that is counted and timed, with one sample per second.

use indexmap::IndexMap;
use indexmap::map::Entry;
use serde::{Deserialize, Serialize, Serializer};

use super::distribution::Distribution;
use super::shortest;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// End of the sample, in seconds since the start.
    pub(crate) t: f64,
    pub(crate) values: Vec<(ColumnKind, String, Option<f64>)>,
}

type Columns = IndexMap<String, Vec<Option<f64>>>;

/// Samples in columns of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    /// Ends of the samples, in seconds since the start.
    pub(crate) t: Vec<f64>,
    #[serde(serialize_with = "serialize_columns")]
    gauges: Columns,
    #[serde(serialize_with = "serialize_columns")]
    counts: Columns,
    #[serde(serialize_with = "serialize_columns")]
    times: Columns,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Column<'a> {
    pub(crate) kind: ColumnKind,
    pub(crate) name: &'a str,
    pub(crate) values: &'a [Option<f64>],
}

/// Writes whole numbers as integers.
fn serialize_columns<S: Serializer>(columns: &Columns, serializer: S) -> Result<S::Ok, S::Error> {
    let short = |values: &[Option<f64>]| values.iter().map(|value| value.map(shortest)).collect::<Vec<_>>();
    serializer.collect_map(columns.iter().map(|(name, values)| (name, short(values))))
}

impl Sample {
    pub(crate) fn get(&self, name: &str) -> Option<f64> {
        self.values.iter().find(|(_, known, _)| known == name).and_then(|(_, _, value)| *value)
    }

    /// Adds a count, or adds it to the count of this name.
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(crate) fn count(&mut self, name: &str, count: u64) {
        let is_known = |(kind, known, _): &&mut (_, String, _)| *kind == ColumnKind::Count && known == name;
        match self.values.iter_mut().find(is_known) {
            Some((_, _, Some(sum))) => *sum += count as f64,
            _ => self.values.push((ColumnKind::Count, name.to_owned(), Some(count as f64))),
        }
    }

    pub(crate) fn gauge(&mut self, name: &str, value: Option<f64>) {
        self.values.push((ColumnKind::Gauge, name.to_owned(), value));
    }

    /// Adds the count of `times`, and the percentiles if there are any times.
    #[expect(clippy::cast_precision_loss, reason = "no time in microseconds comes near 2^53")]
    pub(crate) fn times(&mut self, name: &str, times: &Distribution) {
        let micros = times.micros();
        self.count(&format!("{name}.count"), micros.len());
        let percentiles = PERCENTILES.map(|(percentile, quantile)| (percentile, times.at(quantile)));
        for (end, millis) in percentiles.into_iter().chain([("max", micros.max() as f64 / 1e3)]) {
            let millis = (!micros.is_empty()).then_some(millis);
            self.values.push((ColumnKind::Time, format!("{name}.{end}"), millis));
        }
    }
}

impl Series {
    pub(crate) fn push(&mut self, sample: &Sample) {
        let before = self.t.len();
        self.t.push(sample.t);
        for (kind, name, value) in &sample.values {
            if let Some(column) = self.column(*kind, name, before) {
                column.push(*value);
            }
        }
        self.change_columns(|_, values| values.resize(before + 1, None));
        let previous = before.checked_sub(1).map_or(f64::MIN, |index| self.t[index]);
        if sample.t - previous < MIN_SAMPLE_SECONDS {
            self.t.remove(before - 1);
            self.change_columns(|kind, values| {
                let earlier = values.remove(before - 1);
                values[before - 1] = kind.merge(earlier, values[before - 1]);
            });
        }
        if self.t.len() > MAX_SAMPLES {
            self.halve();
        }
    }

    /// Returns the column of this name. A new one has this many samples. `None` if there are too many columns.
    fn column(&mut self, kind: ColumnKind, name: &str, samples: usize) -> Option<&mut Vec<Option<f64>>> {
        let has_room = self.gauges.len() + self.counts.len() + self.times.len() < MAX_COLUMNS;
        let columns = match kind {
            ColumnKind::Gauge => &mut self.gauges,
            ColumnKind::Count => &mut self.counts,
            ColumnKind::Time => &mut self.times,
        };
        match columns.entry(name.to_owned()) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(place) => has_room.then(|| place.insert(vec![None; samples])),
        }
    }

    fn change_columns(&mut self, mut change: impl FnMut(ColumnKind, &mut Vec<Option<f64>>)) {
        for (kind, columns) in [
            (ColumnKind::Gauge, &mut self.gauges),
            (ColumnKind::Count, &mut self.counts),
            (ColumnKind::Time, &mut self.times),
        ] {
            columns.values_mut().for_each(|values| change(kind, values));
        }
    }

    /// Merges each sample with an even index with the next one.
    fn halve(&mut self) {
        self.t = self.t.chunks(2).filter_map(|pair| pair.last().copied()).collect();
        self.change_columns(|kind, values| {
            let merge = |pair: &[Option<f64>]| {
                pair.iter().copied().reduce(|one, other| kind.merge(one, other)).flatten()
            };
            *values = values.chunks(2).map(merge).collect();
        });
    }

    /// Adds the series of a process that began at the same time. Samples of the same second are combined.
    pub(crate) fn merge(&mut self, other: &Self) {
        let samples = self.t.len();
        for Column { kind, name, values } in other.columns() {
            let Some(sums) = self.column(kind, name, samples) else { continue };
            let combine =
                |one: f64, two: f64| if kind == ColumnKind::Time { one.max(two) } else { one + two };
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = sum.zip(*value).map(|(one, two)| combine(one, two)).or(*sum).or(*value);
            }
        }
    }

    pub(crate) fn columns(&self) -> impl Iterator<Item = Column<'_>> {
        let kinds = [
            (ColumnKind::Gauge, &self.gauges),
            (ColumnKind::Count, &self.counts),
            (ColumnKind::Time, &self.times),
        ];
        kinds.into_iter().flat_map(|(kind, columns)| {
            columns.iter().map(move |(name, values)| Column { kind, name, values })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::to_json_line;

    fn sample(t: f64, connections: f64, errors: f64, p99: Option<f64>) -> Sample {
        let values = vec![
            (ColumnKind::Gauge, "connections".to_owned(), Some(connections)),
            (ColumnKind::Count, "errors".to_owned(), Some(errors)),
            (ColumnKind::Time, "connect_ms.p99".to_owned(), p99),
        ];
        Sample { t, values }
    }

    #[test]
    fn a_short_last_sample_is_merged_with_the_previous_one() {
        let mut series = Series::default();
        series.push(&Sample { t: 1.0, values: Vec::new() });
        series.push(&sample(2.0, 5.0, 1.0, Some(0.25)));
        series.push(&sample(3.0, 6.0, 1.0, None));
        series.push(&sample(3.4, 3.0, 2.0, Some(1.0)));
        let json = to_json_line(&series);
        let (gauges, counts) = (r#"{"connections":[null,5,3]}"#, r#"{"errors":[null,1,3]}"#);
        let times = r#"{"connect_ms.p99":[null,0.25,1]}"#;
        assert_eq!(
            json,
            format!(r#"{{"t":[1.0,2.0,3.4],"gauges":{gauges},"counts":{counts},"times":{times}}}"#)
        );
        assert_eq!(serde_json::from_str::<Series>(&json).expect("it was just serialised"), series);
    }

    #[test]
    fn a_long_run_is_merged_without_losing_counts() {
        let mut series = Series::default();
        let seconds = 3 * MAX_SAMPLES;
        for (second, t) in (0..seconds).zip(1_u32..) {
            let worst = if second == 777 { 9.0 } else { 1.0 };
            series.push(&sample(f64::from(t), f64::from(t), 1.0, Some(worst)));
            assert!(series.t.len() <= MAX_SAMPLES);
        }
        let errors: f64 = series.counts["errors"].iter().flatten().sum();
        assert_eq!(errors, f64::from(u32::try_from(seconds).expect("it fits")));
        assert!(series.times["connect_ms.p99"].contains(&Some(9.0)), "the worst second is kept");
        assert_eq!(series.gauges["connections"].last(), Some(&series.t.last().copied()));
    }

    #[test]
    fn the_number_of_columns_is_limited() {
        let mut series = Series::default();
        for index in 0..2 * MAX_COLUMNS {
            let values = vec![(ColumnKind::Count, format!("closes.{index}"), Some(1.0))];
            series.push(&Sample { t: f64::from(u16::try_from(index).expect("it fits")), values });
        }
        assert_eq!(series.columns().count(), MAX_COLUMNS);
    }
}
