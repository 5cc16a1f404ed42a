//! Named fields in a fixed order: the form in which a result is written, read, searched and displayed.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::distribution::Distribution;

/// Named fields, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Group(IndexMap<String, Field>);

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

impl Group {
    /// Converts a struct to a group. The names of the struct's fields become the names in the group.
    pub(crate) fn of(fields: &impl Serialize) -> Self {
        convert(fields).expect("result structs serialise as objects")
    }

    /// Converts the group to a struct. `None` if its fields do not match.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        convert(self)
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, field: impl Into<Field>) -> Self {
        self.push(name.to_owned(), field.into());
        self
    }

    /// Appends the fields of another group.
    #[must_use]
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(crate) fn push(&mut self, name: String, field: Field) {
        self.0.insert(name, field);
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Field> {
        self.0.get(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.0.iter().map(|(name, field)| (name.as_str(), field))
    }

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("string keys and plain values cannot fail to serialize")
    }

    pub(crate) fn to_json_line(&self) -> String {
        to_json_line(self)
    }
}

/// Formats a value as one line of JSON.
pub(crate) fn to_json_line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("string keys and plain values cannot fail to serialize")
}

/// Converts a value to a type with the same JSON representation.
pub(super) fn convert<T: DeserializeOwned>(value: &impl Serialize) -> Option<T> {
    serde_json::from_str(&to_json_line(value)).ok()
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

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn as_group(&self) -> Option<&Group> {
        if let Self::Group(group) = self { Some(group) } else { None }
    }

    pub(crate) fn as_list(&self) -> Option<&[Self]> {
        if let Self::List(list) = self { Some(list) } else { None }
    }
}

impl FromIterator<(String, Field)> for Group {
    fn from_iter<I: IntoIterator<Item = (String, Field)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

impl IntoIterator for Group {
    type Item = (String, Field);
    type IntoIter = indexmap::map::IntoIter<String, Field>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
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

impl From<Distribution> for Field {
    fn from(distribution: Distribution) -> Self {
        Self::Distribution(Box::new(distribution))
    }
}

impl From<BTreeMap<String, u64>> for Field {
    fn from(counts: BTreeMap<String, u64>) -> Self {
        Self::Group(counts.into_iter().map(|(name, count)| (name, count.into())).collect())
    }
}

impl<T: Into<Self>> From<Option<T>> for Field {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Self>> From<Vec<T>> for Field {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_the_order() {
        let group = Group::default()
            .with("scenario", "hold")
            .with("connected", 3)
            .with("connect_ms", Group::default().with("p50", 0.25).with("max", None::<f64>))
            .with("close_codes", BTreeMap::from([("4000".to_owned(), 2)]))
            .with("seconds", vec![1.5, 2.0]);
        assert_eq!(
            group.to_json_line(),
            r#"{"scenario":"hold","connected":3,"connect_ms":{"p50":0.25,"max":null},"close_codes":{"4000":2},"seconds":[1.5,2.0]}"#
        );
    }

    #[test]
    fn a_group_is_read_as_it_was_written() {
        let text = r#"{"z":1,"a":-1.0,"n":null,"f":true,"t":"x\"","l":[1,{"b":0.5}],"e":{}}"#;
        let group: Group = serde_json::from_str(text).expect("it is valid JSON");
        assert_eq!(group.to_json_line(), text);
        for bad in ["", "[]", "1", r#"{"a""#] {
            assert!(serde_json::from_str::<Group>(bad).is_err(), "{bad}");
        }
    }
}
