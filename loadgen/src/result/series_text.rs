//! Formats of a series: JSON by column, and CSV with one line per sample.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize, Serializer};
use strum::IntoEnumIterator as _;

use super::series::{Column, ColumnKind, Sample, Series};
use super::shortest;

/// Number that is written as an integer if it is whole.
#[derive(Clone, Copy, Deserialize)]
#[serde(transparent)]
pub(super) struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        shortest(self.0).serialize(serializer)
    }
}

#[derive(Serialize, Deserialize)]
struct ByKind<T> {
    gauges: IndexMap<String, T>,
    counts: IndexMap<String, T>,
    times: IndexMap<String, T>,
}

impl<T> ByKind<T> {
    fn of(values: impl Iterator<Item = (ColumnKind, String, T)>) -> Self {
        let mut all = Self { gauges: IndexMap::new(), counts: IndexMap::new(), times: IndexMap::new() };
        values.for_each(|(kind, name, value)| drop(all.of_kind(kind).insert(name, value)));
        all
    }

    fn of_kind(&mut self, kind: ColumnKind) -> &mut IndexMap<String, T> {
        match kind {
            ColumnKind::Gauge => &mut self.gauges,
            ColumnKind::Count => &mut self.counts,
            ColumnKind::Time => &mut self.times,
        }
    }
}

/// JSON format of a sample.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct SampleText(ByKind<Option<Number>>);

impl From<Sample> for SampleText {
    fn from(sample: Sample) -> Self {
        Self(ByKind::of(sample.values.into_iter().map(|(kind, name, value)| (kind, name, value.map(Number)))))
    }
}

/// JSON format of a series.
#[derive(Serialize, Deserialize)]
pub(super) struct SeriesText {
    t: Vec<f64>,
    #[serde(flatten)]
    columns: ByKind<Vec<Option<Number>>>,
}

impl From<Series> for SeriesText {
    fn from(Series { t, columns }: Series) -> Self {
        let numbers = |values: Vec<Option<f64>>| values.into_iter().map(|value| value.map(Number)).collect();
        let columns = columns.into_iter().map(|column| (column.kind, column.name, numbers(column.values)));
        Self { t, columns: ByKind::of(columns) }
    }
}

impl TryFrom<SeriesText> for Series {
    type Error = &'static str;

    fn try_from(SeriesText { t, columns: mut by_kind }: SeriesText) -> Result<Self, Self::Error> {
        let mut series = Self { t, columns: Vec::new() };
        for kind in ColumnKind::iter() {
            for (name, values) in std::mem::take(by_kind.of_kind(kind)) {
                if values.len() != series.t.len() {
                    return Err("the columns of the series differ in length");
                }
                let values = values.into_iter().map(|value| value.map(|Number(number)| number)).collect();
                series.columns.push(Column { kind, name, values });
            }
        }
        Ok(series)
    }
}

impl Series {
    /// Formats the series as CSV, one line per sample.
    pub(crate) fn to_csv(&self) -> Result<Vec<u8>, csv::Error> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(std::iter::once("t").chain(self.columns.iter().map(|column| column.name.as_str())))?;
        for (index, t) in self.t.iter().enumerate() {
            let values = self.columns.iter().map(|column| column.values[index]);
            let cells = values.map(|value| value.map_or_else(String::new, |value| value.to_string()));
            csv.write_record(std::iter::once(t.to_string()).chain(cells))?;
        }
        Ok(csv.into_inner().expect("writing to memory cannot fail"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Group;

    fn series() -> Series {
        let mut series = Series::default();
        for (t, p99) in [(1.0, None), (2.0, Some(0.25))] {
            let values = vec![
                (ColumnKind::Gauge, "connections".to_owned(), Some(5.0)),
                (ColumnKind::Count, "errors".to_owned(), Some(1.0)),
                (ColumnKind::Time, "connect_ms.p99".to_owned(), p99),
            ];
            series.push(&Sample { t, values });
        }
        series
    }

    #[test]
    fn a_series_is_read_as_it_was_written() {
        let json = serde_json::to_string(&series()).expect("it can be serialised");
        assert_eq!(
            json,
            r#"{"t":[1.0,2.0],"gauges":{"connections":[5,5]},"counts":{"errors":[1,1]},"times":{"connect_ms.p99":[null,0.25]}}"#
        );
        assert_eq!(Group::of(&series()).number("times.connect_ms.p99[1]"), Ok(0.25));
        assert_eq!(serde_json::from_str::<Series>(&json).expect("it was just serialised"), series());
        let uneven = r#"{"t":[1.0],"gauges":{"connections":[]},"counts":{},"times":{}}"#;
        assert!(serde_json::from_str::<Series>(uneven).is_err());
    }

    #[test]
    fn csv_has_one_line_per_sample() {
        let csv =
            String::from_utf8(series().to_csv().expect("columns have equal lengths")).expect("it is UTF-8");
        assert_eq!(csv, "t,connections,errors,connect_ms.p99\n1,5,1,\n2,5,1,0.25\n");
    }
}
