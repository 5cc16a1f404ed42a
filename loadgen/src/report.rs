//! The result of a run: named fields in a fixed order, as JSON, as a table, and by path for assertions.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// Named fields, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Group(Vec<(String, Field)>);

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(untagged)]
pub(crate) enum Field {
    /// There was nothing to measure.
    Nothing,
    Flag(bool),
    Count(u64),
    Real(f64),
    Text(String),
    Group(Group),
}

/// Why a path leads to no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoNumber {
    Unknown,
    NotANumber,
}

/// Milliseconds, with microseconds as their fraction.
pub(crate) fn millis(time: Duration) -> f64 {
    micros(time) / 1e3
}

/// Seconds, with microseconds as their fraction.
pub(crate) fn seconds(time: Duration) -> f64 {
    micros(time) / 1e6
}

/// A whole number of microseconds; dividing it once gives the shortest decimals.
fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round()
}

impl Group {
    #[must_use]
    pub(crate) fn with(mut self, name: &str, field: impl Into<Field>) -> Self {
        self.0.push((name.to_owned(), field.into()));
        self
    }

    /// Appends the fields of another group.
    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// The number at a path like `connect_ms.p99`.
    pub(crate) fn number(&self, path: &str) -> Result<f64, NoNumber> {
        let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
        let (_, field) = self.0.iter().find(|(known, _)| known == name).ok_or(NoNumber::Unknown)?;
        match (field, rest) {
            (Field::Group(group), Some(rest)) => group.number(rest),
            (_, Some(_)) => Err(NoNumber::Unknown),
            (Field::Real(number), None) => Ok(*number),
            #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
            (Field::Count(count), None) => Ok(*count as f64),
            (_, None) => Err(NoNumber::NotANumber),
        }
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("string keys and plain values cannot fail to serialize")
    }

    /// The same fields for people, by the paths that assertions use.
    pub(crate) fn to_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        self.add_rows("", &mut table);
        if let Some(values) = table.column_mut(1) {
            values.set_cell_alignment(CellAlignment::Right);
        }
        table.to_string()
    }

    fn add_rows(&self, prefix: &str, table: &mut Table) {
        for (name, field) in &self.0 {
            let path = format!("{prefix}{name}");
            match field {
                Field::Group(group) => group.add_rows(&format!("{path}."), table),
                Field::Nothing => drop(table.add_row([path, "-".to_owned()])),
                Field::Flag(flag) => drop(table.add_row([path, flag.to_string()])),
                Field::Count(count) => drop(table.add_row([path, count.to_string()])),
                Field::Real(number) => drop(table.add_row([path, format!("{number:.3}")])),
                Field::Text(text) => drop(table.add_row([path, text.clone()])),
            }
        }
    }
}

impl fmt::Display for NoNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unknown => "the report has no such path",
            Self::NotANumber => "there is no number at this path",
        })
    }
}

impl Serialize for Group {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, field) in &self.0 {
            map.serialize_entry(name, field)?;
        }
        map.end()
    }
}

impl From<bool> for Field {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u64> for Field {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Field {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Group> for Field {
    fn from(group: Group) -> Self {
        Self::Group(group)
    }
}

impl<K: ToString> From<BTreeMap<K, u64>> for Field {
    fn from(counts: BTreeMap<K, u64>) -> Self {
        Self::Group(Group(counts.iter().map(|(key, count)| (key.to_string(), (*count).into())).collect()))
    }
}

impl<T: Into<Self>> From<Option<T>> for Field {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nothing, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Group {
        Group::default()
            .with("scenario", "hold")
            .with("connected", 3)
            .with("connect_ms", Group::default().with("p50", 0.25).with("max", None::<f64>))
            .with("close_codes", BTreeMap::from([(4000_u16, 2)]))
    }

    #[test]
    fn json_keeps_the_order() {
        let text = serde_json::to_string(&report()).expect("it serializes");
        assert_eq!(
            text,
            r#"{"scenario":"hold","connected":3,"connect_ms":{"p50":0.25,"max":null},"close_codes":{"4000":2}}"#
        );
    }

    #[test]
    fn numbers_are_found_by_path() {
        let report = report();
        assert_eq!(report.number("connected"), Ok(3.0));
        assert_eq!(report.number("connect_ms.p50"), Ok(0.25));
        assert_eq!(report.number("close_codes.4000"), Ok(2.0));
        for unknown in ["", "p50", "connect_ms.p99", "connected.p50", "close_codes.4001"] {
            assert_eq!(report.number(unknown), Err(NoNumber::Unknown), "{unknown}");
        }
        for other in ["scenario", "connect_ms", "connect_ms.max"] {
            assert_eq!(report.number(other), Err(NoNumber::NotANumber), "{other}");
        }
    }

    #[test]
    fn the_table_has_the_paths() {
        let table = report().to_table();
        for line in ["scenario", "connect_ms.p50", "0.250", "close_codes.4000"] {
            assert!(table.contains(line), "{line} in\n{table}");
        }
    }
}
