//! Deserialization of fields that serde's own implementations do not cover.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A string, borrowed unless it contains escapes. (A plain `Cow` always deserializes as owned.)
#[derive(Deserialize)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Deserializes `null` as data rather than as absent.
pub(super) fn null_as_data<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}
