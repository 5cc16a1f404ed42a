//! The values of the configuration file that TOML has no type for.

use std::fmt;
use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error, Unexpected, Visitor};

/// A duration, such as `"25s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

/// A duration, or `"off"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SpanOrOff(pub(super) Option<Duration>);

/// A size in bytes, such as `"64KiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size(pub(super) usize);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a duration such as \"25s\"";
        deserializer
            .deserialize_str(Parsed { expected, parse: |text: &str| humantime::parse_duration(text).ok() })
            .map(Self)
    }
}

impl<'de> Deserialize<'de> for SpanOrOff {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parse = |text: &str| match text {
            "off" => Some(None),
            text => humantime::parse_duration(text).ok().map(Some),
        };
        deserializer
            .deserialize_str(Parsed { expected: "a duration such as \"25s\", or \"off\"", parse })
            .map(Self)
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let parse = |text: &str| usize::try_from(text.parse::<bytesize::ByteSize>().ok()?.as_u64()).ok();
        deserializer.deserialize_str(Parsed { expected: "a size such as \"64KiB\"", parse }).map(Self)
    }
}

/// 0 means no limit.
pub(super) fn unless_zero(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}

/// A string that says something else.
struct Parsed<F> {
    expected: &'static str,
    parse: F,
}

impl<T, F: Fn(&str) -> Option<T>> Visitor<'_> for Parsed<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}
