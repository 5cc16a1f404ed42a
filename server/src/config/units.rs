//! Types of settings that TOML lacks: durations and sizes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// Duration such as `"25s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DurationSetting(pub(super) Duration);

/// Duration such as `"25s"`, or `"off"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DurationOrOff(pub(super) Option<Duration>);

/// Size in bytes, such as `"64KiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeSetting(pub(super) usize);

impl<'de> Deserialize<'de> for DurationSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a duration such as \"25s\"";
        deserializer
            .deserialize_str(ParsedString {
                expected,
                parse: |text: &str| humantime::parse_duration(text).ok(),
            })
            .map(Self)
    }
}

impl<'de> Deserialize<'de> for DurationOrOff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parse = |text: &str| match text {
            "off" => Some(None),
            text => humantime::parse_duration(text).ok().map(Some),
        };
        deserializer
            .deserialize_str(ParsedString { expected: "a duration such as \"25s\", or \"off\"", parse })
            .map(Self)
    }
}

impl<'de> Deserialize<'de> for SizeSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parse = |text: &str| usize::try_from(text.parse::<bytesize::ByteSize>().ok()?.as_u64()).ok();
        deserializer.deserialize_str(ParsedString { expected: "a size such as \"64KiB\"", parse }).map(Self)
    }
}

/// Maps 0, which means "no limit", to `usize::MAX`.
pub(super) fn unless_zero(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}

pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    DurationSetting::deserialize(deserializer).map(|setting| setting.0)
}

pub(super) fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    SizeSetting::deserialize(deserializer).map(|setting| setting.0)
}

/// Deserializes a limit, where 0 means "no limit".
pub(super) fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    usize::deserialize(deserializer).map(unless_zero)
}

/// Deserializes a limit in bytes, where 0 means "no limit".
pub(super) fn size_limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    size(deserializer).map(unless_zero)
}

/// Deserializes a string and parses it, for example as a URL.
pub(super) fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// Like [`parsed`], but an empty string means that the setting is not set.
pub(super) fn optional<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    (!text.is_empty()).then(|| text.parse().map_err(D::Error::custom)).transpose()
}

/// Element of a list that is deserialized like [`parsed`].
pub(super) struct Parsed<T>(pub(super) T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parsed(deserializer).map(Self)
    }
}

/// Visitor that parses a string.
struct ParsedString<F> {
    expected: &'static str,
    parse: F,
}

impl<T, F: Fn(&str) -> Option<T>> Visitor<'_> for ParsedString<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}
