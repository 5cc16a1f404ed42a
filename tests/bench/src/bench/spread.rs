//! Median, minimum and maximum.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    min: f64,
    max: f64,
}

impl Spread {
    /// Computes the spread of the figures. Returns `None` for an empty sequence.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (min, max) = (*figures.first()?, *figures.last()?);
        let middle = figures.len() / 2;
        let median = f64::midpoint(figures[(figures.len() - 1) / 2], figures[middle]);
        Some(Self { median, min, max })
    }

    /// Formats the median with this many decimals, followed by the range unless minimum and maximum are
    /// equal.
    pub(crate) fn show(&self, decimals: usize) -> String {
        let Self { median, min, max } = self;
        if min == max {
            return format!("{median:.decimals$}");
        }
        format!("{median:.decimals$} ({min:.decimals$} .. {max:.decimals$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_extremes() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).map(|spread| spread.show(0)), Some("2 (1 .. 3)".to_owned()));
        assert_eq!(Spread::of([1.0, 4.0]).map(|spread| spread.median), Some(2.5));
        assert_eq!(Spread::of([]), None);
    }
}
