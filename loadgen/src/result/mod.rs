//! The result of a run: one JSON document, used for display, assertions, plots and comparisons.
//!
//! Numbers are fields of structs. The type of a field determines how the values from several processes are
//! added up ([`Sum`]). A [`Document`] holds the numbers as a [`Group`] of named fields, between the settings
//! and the histograms and series, and can be read back.

mod assertion;
mod comparison;
mod distribution;
mod document;
mod group;
mod path;
mod series;
mod series_text;
mod sum;
mod table;
mod values;

use std::time::Duration;

pub(crate) use self::assertion::{Assertion, Verdict};
pub(crate) use self::comparison::{Compared, names, rows, show_ratio, to_table};
pub(crate) use self::distribution::Distribution;
pub(crate) use self::document::{Document, Ending, RunInfo, RunPhase};
pub(crate) use self::group::{Field, Group, to_json_line};
pub(crate) use self::path::PathError;
pub(crate) use self::series::{Column, ColumnKind, Sample, Series};
pub(crate) use self::sum::{Highest, Mean, Sum, Total, sum, summed};
pub(crate) use self::table::{align, is_distribution, new_table, percentile_names, show, show_at};
pub(crate) use self::values::{Level, Values};

/// Converts a number to a field, as an integer if it has no fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
pub(crate) fn shortest(value: f64) -> Field {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        Field::Count(value as u64)
    } else {
        Field::Real(value)
    }
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
