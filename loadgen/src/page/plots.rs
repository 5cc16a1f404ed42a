//! Plots of a result: its series over time, and the percentiles of its distributions.

use indexmap::IndexMap;

use super::line_plot::{Line, decades, draw, short};
use crate::result::{Column, ColumnKind, Distribution, Series};

/// Maximum number of lines in one plot: more would be hard to tell apart.
const MAX_LINES: usize = 12;
/// Maximum number of points of a line. Above this, neighbouring samples are merged into one point.
const MAX_POINTS: usize = 240;
/// Shortest time shown. Times are recorded in microseconds.
const SHORTEST_MS: f64 = 0.001;
const BYTES_PER_MIB: f64 = 1_048_576.0;
/// Ends of the percentile columns of a timing.
const PERCENTILES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// Plots the columns over time. Percentiles of a timing, levels of the wheel and close codes share a plot.
/// Columns in which nothing occurred are left out.
pub(super) fn over_time(series: &Series, is_selected: impl Fn(&Column<'_>) -> bool) -> Vec<String> {
    let end = series.t.last().copied().unwrap_or_default();
    let is_drawn = |column: &Column<'_>| {
        is_selected(column)
            && !column.name.ends_with(".count")
            && column.values.iter().flatten().any(|value| *value > 0.0 || column.kind == ColumnKind::Time)
    };
    let columns: Vec<_> = series.columns().filter(is_drawn).collect();
    let groups = columns.chunk_by(|one, other| one.kind == other.kind && stem(one) == stem(other));
    let plot = |columns: &[Column<'_>]| {
        let name = if let [column] = columns { column.name } else { stem(&columns[0]).trim_end_matches('.') };
        let (title, unit) = match columns[0].kind {
            ColumnKind::Count => (format!("{name} per second"), 1.0),
            _ if name.ends_with("_bytes") => (name.replace("_bytes", ", MiB"), BYTES_PER_MIB),
            _ => (name.to_owned(), 1.0),
        };
        let lines = columns.iter().map(|column| Line {
            name: column.name.strip_prefix(stem(column)).unwrap_or_default().to_owned(),
            points: points(series, column, unit),
        });
        let lines: Vec<_> = lines.collect();
        let values = lines.iter().flat_map(|line| &line.points).filter_map(|(_, value)| *value);
        Some(if columns[0].kind == ColumnKind::Time {
            draw(&title, 0.0..end, decades(values, SHORTEST_MS)?, &seconds, &lines)
        } else {
            draw(&title, 0.0..end, 0.0..values.fold(0.0, f64::max) * 1.05, &seconds, &lines)
        })
    };
    groups.flat_map(|group| group.chunks(MAX_LINES)).filter_map(plot).collect()
}

/// Plots the times at the percentiles of each distribution. Times counted from when an operation was due and
/// from its actual start share a plot.
pub(super) fn distributions(histograms: &IndexMap<String, Distribution>) -> Vec<String> {
    let operation = |name: &str| name.trim_end_matches("_ms").trim_end_matches("_from_start").to_owned();
    let histograms: Vec<_> = histograms.iter().filter(|(_, times)| !times.micros().is_empty()).collect();
    let groups = histograms.chunk_by(|(one, _), (other, _)| operation(one) == operation(other));
    let plot = groups.filter_map(|group| {
        #[expect(clippy::cast_precision_loss, reason = "no count and no time comes near 2^53")]
        let lines = group.iter().map(|(name, times)| {
            let most = times.micros().len() as f64;
            let points = times.micros().iter_quantiles(4).map(|step| {
                let millis = step.value_iterated_to() as f64 / 1e3;
                // On a logarithmic axis of this number, each further nine of the percentile has equal space.
                ((1.0 / (1.0 - step.quantile())).min(most), Some(millis.max(SHORTEST_MS)))
            });
            Line { name: (*name).clone(), points: points.collect() }
        });
        let lines: Vec<_> = lines.collect();
        let points = || lines.iter().flat_map(|line| &line.points);
        let x = decades(points().map(|(x, _)| *x).chain([1.0]), 1.0)?;
        let y = decades(points().filter_map(|(_, y)| *y), SHORTEST_MS)?;
        let percentile = |x: &f64| format!("p{}", short(100.0 - 100.0 / x));
        Some(draw(&format!("{}_ms by percentile", operation(group[0].0)), x, y, &percentile, &lines))
    });
    plot.collect()
}

fn seconds(t: &f64) -> String {
    format!("{} s", short(*t))
}

/// Returns a column's name without its percentile, level number or close code.
fn stem<'a>(column: &Column<'a>) -> &'a str {
    let name = column.name;
    let stem = PERCENTILES.iter().find_map(|end| name.strip_suffix(end).filter(|stem| stem.ends_with('.')));
    stem.unwrap_or_else(|| name.trim_end_matches(|char: char| char.is_ascii_digit()))
}

/// Returns the points of a column in multiples of `unit`. Counts become rates per second. A merged point is
/// the highest of its samples, or the mean of their rates.
fn points(series: &Series, column: &Column<'_>, unit: f64) -> Vec<(f64, Option<f64>)> {
    let size = series.t.len().div_ceil(MAX_POINTS).max(1);
    let mut start = 0.0;
    let point = |(t, values): (&[f64], &[Option<f64>])| {
        let end = *t.last()?;
        let length = end - std::mem::replace(&mut start, end);
        let values = values.iter().copied().flatten();
        let value = match column.kind {
            ColumnKind::Count => {
                values.reduce(|one, other| one + other).filter(|_| length > 0.0).map(|count| count / length)
            }
            ColumnKind::Gauge => values.reduce(f64::max),
            ColumnKind::Time => values.reduce(f64::max).map(|millis| millis.max(SHORTEST_MS)),
        };
        Some((end, value.map(|value| value / unit)))
    };
    series.t.chunks(size).zip(column.values.chunks(size)).filter_map(point).collect()
}
