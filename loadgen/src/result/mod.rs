//! The result of a run: one JSON document, used for display, assertions and plots.
//!
//! A [`Document`] has settings, numbers in a [`Group`], histograms and series.

mod assertion;
mod distribution;
mod document;
mod group;
mod series;

use std::time::Duration;

pub(crate) use self::assertion::{Assertion, Verdict};
pub(crate) use self::distribution::{Distribution, PERCENTILES};
pub(crate) use self::document::{Document, FORMAT, RunPhase, Settings, extract_histograms};
pub(crate) use self::group::{Field, Group, PathError, convert, to_json_line};
pub(crate) use self::series::{Column, ColumnKind, Sample, Series};

/// Converts a number to a field, as an integer if it has no fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
pub(crate) fn shortest(value: f64) -> Field {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        Field::Count(value as u64)
    } else {
        Field::Real(value)
    }
}

/// Replaces the characters that cannot be part of a path in the result.
pub(crate) fn path_name(name: &str) -> String {
    name.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }).collect()
}

/// Converts to milliseconds, with microsecond precision.
pub(crate) fn millis(time: Duration) -> f64 {
    micros(time) / 1e3
}

/// Converts to seconds, with microsecond precision.
pub(crate) fn seconds(time: Duration) -> f64 {
    micros(time) / 1e6
}

/// Returns whole microseconds. Dividing these only once yields the shortest decimals.
fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round()
}
