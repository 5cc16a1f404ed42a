//! Types of settings that TOML lacks: durations and sizes.

use std::fmt;
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
