//! Reads fields from JSON, in their order.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::group::{Field, Group};

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyField)
    }
}

impl<'de> Deserialize<'de> for Group {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct AnyField;
struct Fields;

impl<'de> Visitor<'de> for AnyField {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field of a result")
    }

    fn visit_unit<E>(self) -> Result<Field, E> {
        Ok(Field::Nothing)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Field, E> {
        Ok(Field::Flag(flag))
    }

    fn visit_u64<E>(self, count: u64) -> Result<Field, E> {
        Ok(Field::Count(count))
    }

    #[expect(clippy::cast_precision_loss, reason = "no number below zero comes near -2^53")]
    fn visit_i64<E>(self, number: i64) -> Result<Field, E> {
        Ok(Field::Real(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Field, E> {
        Ok(Field::Real(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Field, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Field, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element()? {
            list.push(element);
        }
        Ok(Field::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Field, A::Error> {
        Fields.visit_map(entries).map(Field::Group)
    }
}

impl<'de> Visitor<'de> for Fields {
    type Value = Group;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Group, A::Error> {
        let mut group = Group::default();
        while let Some((name, field)) = entries.next_entry()? {
            group.push(name, field);
        }
        Ok(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_what_was_written() {
        let text = r#"{"z":1,"a":-1.0,"n":null,"f":true,"t":"x\"","l":[1,{"b":0.5}],"e":{}}"#;
        let group: Group = serde_json::from_str(text).expect("it is JSON");
        assert_eq!(group.to_json_line(), text);
        for bad in ["", "[]", "1", r#"{"a""#] {
            assert!(serde_json::from_str::<Group>(bad).is_err(), "{bad}");
        }
    }
}
