//! Columns of a series as points to draw.

use crate::result::{Column, Kind, Series};

/// More points of a rate than these would be noise: neighbours share one, their mean.
const MAX_RATES: usize = 240;

/// A column over time; what was counted as how many a second.
pub(super) fn points(series: &Series, column: &Column) -> Vec<(f64, Option<f64>)> {
    if column.kind != Kind::Count {
        return series.t().iter().copied().zip(column.values.iter().copied()).collect();
    }
    let size = samples_a_point(series);
    let mut start = 0.0;
    let rate = |(t, counts): (&[f64], &[Option<f64>])| {
        let end = *t.last()?;
        let length = end - std::mem::replace(&mut start, end);
        let counted = counts.iter().copied().flatten().reduce(|one, other| one + other);
        Some((end, counted.filter(|_| length > 0.0).map(|count| count / length)))
    };
    series.t().chunks(size).zip(column.values.chunks(size)).filter_map(rate).collect()
}

fn samples_a_point(series: &Series) -> usize {
    series.t().len().div_ceil(MAX_RATES).max(1)
}

/// What to say about the rates of a series.
pub(super) fn note_on_rates(series: &Series) -> String {
    let size = samples_a_point(series);
    match series.t().get(size - 1) {
        Some(seconds) if size > 1 => format!("a second, mean of {seconds:.0} s"),
        _ => "a second".to_owned(),
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
                (Kind::Gauge, "connections".to_owned(), Some(7.0)),
                (Kind::Count, "errors".to_owned(), Some(f64::from(second % 2) * 4.0)),
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
        assert_eq!(drawn(480, 0).len(), 480, "gauges are drawn as they are");
        assert_eq!(note_on_rates(&series(0)), "a second");
        assert_eq!(note_on_rates(&series(3)), "a second");
        assert_eq!(note_on_rates(&series(480)), "a second, mean of 2 s");
    }
}
