//! The result of a run: one JSON document, the same for people, for assertions, for plots and for comparing.
//!
//! A scenario gives its numbers as a [`Group`]; [`Document`] puts them between what was asked for and the histograms
//! and the series. All of it can be read back, and histograms of several processes add up exactly.

mod assertion;
mod comparison;
mod distribution;
mod document;
mod group;
mod measured;
mod path;
mod read;
mod series;
mod series_text;
mod sum;
mod table;

use std::time::Duration;

pub(crate) use self::assertion::{Assertion, Verdict};
pub(crate) use self::comparison::{Compared, names, rows, show_ratio, to_table};
pub(crate) use self::distribution::Distribution;
pub(crate) use self::document::{Document, Ending, Phase, Run};
pub(crate) use self::group::{Field, Group};
pub(crate) use self::measured::Measured;
pub(crate) use self::path::NoNumber;
pub(crate) use self::series::{Column, Kind, Sample, Series};
pub(crate) use self::table::{align, is_distribution, new_table, percentile_names, show};

/// Whole numbers above zero without a fraction.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
pub(crate) fn shortest(value: f64) -> Field {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        Field::Count(value as u64)
    } else {
        Field::Real(value)
    }
}

/// Milliseconds, with microseconds as their fraction.
pub(crate) fn millis(time: Duration) -> f64 {
    micros(time) / 1e3
}

/// Seconds, with microseconds as their fraction.
pub(crate) fn seconds(time: Duration) -> f64 {
    micros(time) / 1e6
}

/// A whole number of microseconds; dividing it once gives the shortest decimals.
fn micros(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round()
}
