//! Named fields in a fixed order: the form in which numbers are written, searched and displayed.

use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::distribution::Distribution;

/// Named fields, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Group(pub(crate) IndexMap<String, Field>);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Field {
    /// Null, because there was nothing to measure.
    Null,
    Flag(bool),
    Count(u64),
    Real(f64),
    Text(String),
    List(Vec<Field>),
    Distribution(Box<Distribution>),
    Group(Group),
}

/// Why a path does not lead to a number.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum PathError {
    #[error("the result has no such path")]
    Unknown,
    /// It may have a number in another result.
    #[error("nothing was measured at this path")]
    Unmeasured,
    #[error("the value at this path is not a number")]
    NotANumber,
}

impl Group {
    /// Converts a struct to a group. The names of the struct's fields become the names in the group.
    pub(crate) fn of(fields: &impl Serialize) -> Self {
        convert(fields)
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.0.insert(name.to_owned(), convert(&value));
        self
    }

    /// Appends the fields of another group.
    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// Adds a field at `path`, whose names are separated by dots.
    pub(crate) fn push_at(&mut self, path: &str, field: Field) {
        let Some((name, rest)) = path.split_once('.') else { return self.add_up(path, field) };
        let below = self.0.entry(name.to_owned()).or_insert_with(|| Field::Group(Self::default()));
        if let Field::Group(below) = below {
            below.push_at(rest, field);
        }
    }

    /// Adds a field, or adds its value to the field of this name.
    pub(crate) fn add_up(&mut self, name: &str, field: Field) {
        match (self.0.get_mut(name), field) {
            (Some(Field::Count(sum)), Field::Count(count)) => *sum += count,
            (Some(Field::Real(highest)), Field::Real(other)) => *highest = highest.max(other),
            (Some(Field::Distribution(sum)), Field::Distribution(times)) => sum.add(&times),
            (Some(Field::Group(sum)), Field::Group(counts)) => {
                counts.0.into_iter().for_each(|(name, count)| sum.add_up(&name, count));
            }
            (Some(_), Field::Null) => {}
            (_, field) => drop(self.0.insert(name.to_owned(), field)),
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Field> {
        self.0.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.0.iter().map(|(name, field)| (name.as_str(), field))
    }

    /// Returns whether these are the percentiles of a distribution.
    pub(crate) fn is_distribution(&self) -> bool {
        self.get("count").is_some() && self.get("p99.99").is_some()
    }

    /// Returns the number at a path: names separated by dots, and indices in brackets. Names may contain
    /// dots.
    pub(crate) fn number(&self, path: &str) -> Result<f64, PathError> {
        self.iter()
            .filter_map(|(name, field)| field.number_at(path.strip_prefix(name)?))
            .next()
            .unwrap_or(Err(PathError::Unknown))
    }
}

impl Field {
    pub(crate) fn as_number(&self) -> Option<f64> {
        match self {
            Self::Real(number) => Some(*number),
            #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
            Self::Count(count) => Some(*count as f64),
            _ => None,
        }
    }

    pub(crate) fn as_group(&self) -> Option<&Group> {
        if let Self::Group(group) = self { Some(group) } else { None }
    }

    /// Returns the number at the rest of a path. `None` if the rest does not fit this field.
    fn number_at(&self, rest: &str) -> Option<Result<f64, PathError>> {
        let result = match self {
            Self::Null if rest.is_empty() => Err(PathError::Unmeasured),
            field if rest.is_empty() => field.as_number().ok_or(PathError::NotANumber),
            Self::Group(group) => group.number(rest.strip_prefix('.')?),
            Self::Distribution(distribution) => distribution.percentiles().number(rest.strip_prefix('.')?),
            Self::List(list) => {
                let (index, rest) = rest.strip_prefix('[')?.split_once(']')?;
                return list.get(index.parse::<usize>().ok()?)?.number_at(rest);
            }
            _ => return None,
        };
        (result != Err(PathError::Unknown)).then_some(result)
    }
}

pub(crate) fn to_json_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("string keys and plain values cannot fail to serialize")
}

/// Converts a value to fields, which have the same JSON representation.
pub(crate) fn convert<T: DeserializeOwned>(value: &impl Serialize) -> T {
    serde_json::from_str(&to_json_line(value)).expect("fields can have any value")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn group() -> Group {
        let phase = |seconds: f64| Group::default().with("name", "hold").with("seconds", seconds);
        let times = Group::default().with("p99", 0.25).with("p99.9", 0.5).with("max", None::<f64>);
        Group::default()
            .with("scenario", "hold")
            .with("connected", 3)
            .with("connect_ms", times)
            .with("close_codes", BTreeMap::from([("4000", 2)]))
            .with("phases", vec![phase(1.0), phase(2.0)])
    }

    #[test]
    fn json_keeps_the_order() {
        let phases = r#"[{"name":"hold","seconds":1.0},{"name":"hold","seconds":2.0}]"#;
        let times = r#"{"p99":0.25,"p99.9":0.5,"max":null}"#;
        let text = format!(
            r#"{{"scenario":"hold","connected":3,"connect_ms":{times},"close_codes":{{"4000":2}},"phases":{phases}}}"#
        );
        assert_eq!(to_json_line(&group()), text);
        assert_eq!(serde_json::from_str::<Group>(&text).expect("it is valid JSON"), group());
    }

    #[test]
    fn numbers_are_found_by_path() {
        for (path, number) in [
            ("connected", 3.0),
            ("connect_ms.p99", 0.25),
            ("connect_ms.p99.9", 0.5),
            ("close_codes.4000", 2.0),
            ("phases[1].seconds", 2.0),
        ] {
            assert_eq!(group().number(path), Ok(number), "{path}");
        }
        let unknown = "p50 connect_ms.p99.99 connect_msp99 connected.p50 close_codes.4001 phases[2].seconds \
                       phases[x] phases[1 phases[1]seconds phases.seconds";
        for unknown in unknown.split(' ').chain([""]) {
            assert_eq!(group().number(unknown), Err(PathError::Unknown), "{unknown}");
        }
        assert_eq!(group().number("connect_ms.max"), Err(PathError::Unmeasured));
        for other in ["scenario", "connect_ms", "phases", "phases[0]", "phases[0].name"] {
            assert_eq!(group().number(other), Err(PathError::NotANumber), "{other}");
        }
    }
}
