//! The result of a run: one JSON document, the same for people, for assertions, for plots and for comparing.
//!
//! A scenario gives its numbers as a [`Group`]; [`Document`] puts them between what was asked for and the histograms
//! and the series. All of it can be read back, and histograms of several processes add up exactly.

mod distribution;
mod document;
mod group;
mod path;
mod read;
mod series;
mod series_text;
mod table;

use std::time::Duration;

pub(crate) use self::distribution::Distribution;
pub(crate) use self::document::{Document, Ending, Phase, Run};
pub(crate) use self::group::Group;
pub(crate) use self::path::NoNumber;
pub(crate) use self::series::{Kind, Sample, Series};

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
