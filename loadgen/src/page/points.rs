//! Points to draw for a column of a series.

use crate::result::{Column, ColumnKind, Series};

/// Maximum number of points of a rate: more would be noise. Above this, neighbouring samples are averaged
/// into one point.
const MAX_RATE_POINTS: usize = 240;

/// Returns the points of a column over time. Counts become rates per second.
pub(super) fn points(series: &Series, column: &Column) -> Vec<(f64, Option<f64>)> {
    if column.kind != ColumnKind::Count {
        return series.t().iter().copied().zip(column.values.iter().copied()).collect();
    }
    let size = samples_per_point(series);
    let mut start = 0.0;
    let rate = |(t, counts): (&[f64], &[Option<f64>])| {
        let end = *t.last()?;
        let length = end - std::mem::replace(&mut start, end);
        let counted = counts.iter().copied().flatten().reduce(|one, other| one + other);
        Some((end, counted.filter(|_| length > 0.0).map(|count| count / length)))
    };
    series.t().chunks(size).zip(column.values.chunks(size)).filter_map(rate).collect()
}

fn samples_per_point(series: &Series) -> usize {
    series.t().len().div_ceil(MAX_RATE_POINTS).max(1)
}

/// Returns the note that plots show about their rates.
pub(super) fn rate_note(series: &Series) -> String {
    let size = samples_per_point(series);
    match series.t().get(size - 1) {
        Some(seconds) if size > 1 => format!("per second, mean of {seconds:.0} s"),
        _ => "per second".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Sample;

    fn series(seconds: u16) -> Series {
        let mut series = Series::default();
        for second in 1..=seconds {
            let values = vec![
                (ColumnKind::Gauge, "connections".to_owned(), Some(7.0)),
                (ColumnKind::Count, "errors".to_owned(), Some(f64::from(second % 2) * 4.0)),
            ];
            series.push(&Sample { t: f64::from(second), values });
        }
        series
    }

    fn drawn(seconds: u16, index: usize) -> Vec<(f64, Option<f64>)> {
        let series = series(seconds);
        points(&series, &series.columns()[index])
    }

    #[test]
    fn rates_of_a_long_run_are_means() {
        assert_eq!(drawn(3, 1), [(1.0, Some(4.0)), (2.0, Some(0.0)), (3.0, Some(4.0))]);
        let means = drawn(480, 1);
        assert_eq!((means.len(), means[0], means[239]), (240, (2.0, Some(2.0)), (480.0, Some(2.0))));
        assert_eq!(drawn(480, 0).len(), 480, "gauges are not averaged");
        assert_eq!(rate_note(&series(0)), "per second");
        assert_eq!(rate_note(&series(3)), "per second");
        assert_eq!(rate_note(&series(480)), "per second, mean of 2 s");
    }
}
