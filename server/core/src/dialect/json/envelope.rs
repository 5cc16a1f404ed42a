use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::dialect::json_fields::Text;

/// Maximum length of a command name quoted in an error.
pub(super) const MAX_NAME_CHARS: usize = 32;

/// The outer object of a command. Its body is not parsed yet, so the `id` is known even if the command is
/// invalid.
///
/// `Deserialize` is implemented by hand: a derived enum with a flattened `id` would accept
/// `{"ack":..,"close":..}` as one command, and cannot hold a [`RawValue`].
pub(super) struct Envelope<'a> {
    pub(super) id: Option<u64>,
    pub(super) command: (Cow<'a, str>, &'a RawValue),
}

impl<'de> Deserialize<'de> for Envelope<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = Envelope<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with one command")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut id = None;
        let mut command = None;
        while let Some(Text(name)) = map.next_key()? {
            if name == "id" {
                if id.replace(map.next_value::<u64>()?).is_some() {
                    return Err(de::Error::duplicate_field("id"));
                }
            } else if let Some((first, _)) = command.replace((name, map.next_value()?)) {
                let first = shortened(&first, MAX_NAME_CHARS);
                return Err(de::Error::custom(format_args!(
                    "expected exactly one command, but {first:?} is not the only one"
                )));
            }
        }
        let command = command.ok_or_else(|| de::Error::custom("expected exactly one command, found none"))?;
        Ok(Envelope { id, command })
    }
}

pub(super) fn shortened(text: &str, chars: usize) -> &str {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at);
    &text[..end]
}
