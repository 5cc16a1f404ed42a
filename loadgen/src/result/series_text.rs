//! A series as JSON, in columns, and as CSV, one line a sample.

use super::group::{Field, Group};
use super::series::{Column, Kind, Sample, Series};
use super::shortest;

impl Sample {
    /// The same fields as in the series.
    pub(crate) fn to_json(&self) -> Group {
        let mut group = Group::default();
        for (kind, kind_name) in Kind::ALL {
            let of_kind = self.values.iter().filter(|(its, _, _)| *its == kind);
            group.push(
                kind_name.to_owned(),
                Field::Group(of_kind.map(|(_, name, value)| (name.clone(), number(*value))).collect()),
            );
        }
        group
    }
}

impl Series {
    pub(crate) fn to_json(&self) -> Group {
        let mut group = Group::default().with("t", self.t.clone());
        for (kind, kind_name) in Kind::ALL {
            let of_kind = self.columns.iter().filter(|column| column.kind == kind);
            let list =
                |column: &Column| Field::List(column.values.iter().map(|value| number(*value)).collect());
            let columns: Group = of_kind.map(|column| (column.name.clone(), list(column))).collect();
            group.push(kind_name.to_owned(), columns.into());
        }
        group
    }

    /// None if this is no series.
    pub(crate) fn from_json(field: &Field) -> Option<Self> {
        let group = field.as_group()?;
        let t: Option<Vec<f64>> = group.get("t")?.as_list()?.iter().map(Field::as_number).collect();
        let mut series = Self { t: t?, columns: Vec::new() };
        for (kind, kind_name) in Kind::ALL {
            for (name, values) in group.get(kind_name)?.as_group()?.iter() {
                let values: Vec<_> = values.as_list()?.iter().map(Field::as_number).collect();
                if values.len() != series.t.len() {
                    return None;
                }
                series.columns.push(Column { kind, name: name.to_owned(), values });
            }
        }
        Some(series)
    }

    /// One line a sample.
    pub(crate) fn to_csv(&self) -> Result<Vec<u8>, csv::Error> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(std::iter::once("t").chain(self.columns.iter().map(|column| column.name.as_str())))?;
        for (index, t) in self.t.iter().enumerate() {
            let values = self.columns.iter().map(|column| column.values[index]);
            let cells = values.map(|value| value.map_or_else(String::new, |value| value.to_string()));
            csv.write_record(std::iter::once(t.to_string()).chain(cells))?;
        }
        Ok(csv.into_inner().expect("writing into memory cannot fail"))
    }
}

fn number(value: Option<f64>) -> Field {
    value.map_or(Field::Nothing, shortest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series() -> Series {
        let mut series = Series::default();
        for (t, p99) in [(1.0, None), (2.0, Some(0.25))] {
            let values = vec![
                (Kind::Gauge, "connections".to_owned(), Some(5.0)),
                (Kind::Count, "errors".to_owned(), Some(1.0)),
                (Kind::Time, "connect_ms.p99".to_owned(), p99),
            ];
            series.push(&Sample { t, values });
        }
        series
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        let json = series().to_json();
        assert_eq!(
            json.to_json_line(),
            r#"{"t":[1.0,2.0],"gauges":{"connections":[5,5]},"counts":{"errors":[1,1]},"times":{"connect_ms.p99":[null,0.25]}}"#
        );
        assert_eq!(json.number("times.connect_ms.p99[1]"), Ok(0.25));
        assert_eq!(Series::from_json(&json.into()), Some(series()));
        let uneven: Group =
            serde_json::from_str(r#"{"t":[1.0],"gauges":{"connections":[]},"counts":{},"times":{}}"#)
                .expect("it is JSON");
        assert_eq!(Series::from_json(&uneven.into()), None);
    }

    #[test]
    fn csv_has_a_line_a_sample() {
        let csv =
            String::from_utf8(series().to_csv().expect("columns are of one length")).expect("it is text");
        assert_eq!(csv, "t,connections,errors,connect_ms.p99\n1,5,1,\n2,5,1,0.25\n");
    }
}
