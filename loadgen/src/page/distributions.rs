//! Plots of distributions: histograms and percentile curves.

use encke_plot::{Axis, HEIGHT, Line, LineStyle, Plot, Unit, colour};

use super::titles::title;
use crate::result::Distribution;

/// Number of buckets of a histogram. Each bucket is wider than the previous one by the same factor.
const BUCKETS: u16 = 60;
/// Shortest time shown. Times are recorded in microseconds; shorter ones count as one microsecond.
const SHORTEST_MS: f64 = 0.001;

/// Colour index, name in the plot, and distribution.
pub(super) type NamedDistribution<'a> = (usize, String, &'a Distribution);

/// Returns a plot of the histograms.
pub(super) fn histogram(name: &str, distributions: &[NamedDistribution<'_>]) -> Option<Plot> {
    let (low, high) = bounds(distributions)?;
    let x = Axis::logarithmic(low, high, Unit::Millis);
    let edge = |index: u16| low * (high / low).powf(f64::from(index) / f64::from(BUCKETS));
    let lines = distributions.iter().map(|(index, name, distribution)| Line {
        name: name.clone(),
        colour: colour(*index),
        points: buckets(distribution, &edge),
    });
    let lines: Vec<_> = lines.collect();
    let highest = lines.iter().filter_map(Line::highest).reduce(f64::max)?;
    Some(Plot {
        title: format!("{}: histogram", title(name)),
        note: String::new(),
        x,
        y: Axis::from_zero(highest, Unit::Plain),
        unit: Unit::Plain,
        bands: Vec::new(),
        lines,
        style: LineStyle::Steps,
        height: HEIGHT,
    })
}

/// Returns a plot of the time at each percentile.
pub(super) fn percentiles(name: &str, distributions: &[NamedDistribution<'_>]) -> Option<Plot> {
    let (low, high) = bounds(distributions)?;
    let most = distributions.iter().map(|(_, _, distribution)| distribution.micros().len()).max()?;
    // End the axis at the highest percentile at which two samples can still differ.
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    let x = Axis::quantiles(1.0 - 1.0 / (most as f64 * 2.0));
    let lines = distributions.iter().map(|(index, name, distribution)| Line {
        name: name.clone(),
        colour: colour(*index),
        points: quantiles(distribution),
    });
    let lines = lines.collect();
    let is_wide = high / low > 30.0;
    let y = if is_wide {
        Axis::logarithmic(low, high, Unit::Millis)
    } else {
        Axis::from_zero(high, Unit::Millis)
    };
    Some(Plot {
        title: format!("{}: percentiles", title(name)),
        note: String::new(),
        x,
        y,
        unit: Unit::Millis,
        bands: Vec::new(),
        lines,
        style: LineStyle::Lines,
        height: HEIGHT,
    })
}

/// Returns the shortest and the longest time, in milliseconds. `None` without samples.
fn bounds(distributions: &[NamedDistribution<'_>]) -> Option<(f64, f64)> {
    let filled = || distributions.iter().map(|(_, _, it)| *it).filter(|it| !it.micros().is_empty());
    let low = filled().map(|it| it.at(0.0)).reduce(f64::min)?.max(SHORTEST_MS);
    let high = filled().map(|it| it.at(1.0)).reduce(f64::max)?.max(low);
    Some(if high < low * 1.2 { (low / 1.2, high * 1.2) } else { (low, high) })
}

#[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
fn buckets(distribution: &Distribution, edge: &impl Fn(u16) -> f64) -> Vec<(f64, Option<f64>)> {
    let mut counts = vec![0_u64; usize::from(BUCKETS)];
    let mut bucket = 0;
    for step in distribution.micros().iter_recorded() {
        let millis = step.value_iterated_to() as f64 / 1e3;
        while bucket + 1 < BUCKETS && millis >= edge(bucket + 1) {
            bucket += 1;
        }
        counts[usize::from(bucket)] += step.count_at_value();
    }
    let steps = (0..BUCKETS).zip(counts).map(|(index, count)| (edge(index), Some(count as f64)));
    steps.chain([(edge(BUCKETS), Some(0.0))]).collect()
}

fn quantiles(distribution: &Distribution) -> Vec<(f64, Option<f64>)> {
    if distribution.micros().is_empty() {
        return Vec::new();
    }
    let mut points = vec![(0.0, Some(distribution.at(0.0).max(SHORTEST_MS)))];
    // Draw 24 points per nine, up to six nines.
    for step in 1..=144_u16 {
        let quantile = 1.0 - 10_f64.powf(-f64::from(step) / 24.0);
        points.push((quantile, Some(distribution.at(quantile).max(SHORTEST_MS))));
    }
    points
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::record::Times;

    fn of(millis: &[u64]) -> Distribution {
        let times = Times::default();
        millis.iter().for_each(|millis| times.record(Duration::from_millis(*millis)));
        times.summary()
    }

    #[test]
    fn every_sample_is_in_a_bucket() {
        for samples in [vec![7], vec![0, 0, 5], (1..=5000).collect(), vec![1, 3_600_000]] {
            let distribution = of(&samples);
            let plot =
                histogram("", &[(0, String::new(), &distribution)]).expect("the distribution has samples");
            let counts = plot.lines[0].points.iter().filter_map(|(_, count)| *count).sum::<f64>();
            assert!(
                (counts - f64::from(u32::try_from(samples.len()).expect("it fits into u32"))).abs() < 1e-9,
                "{samples:?}"
            );
            let plot =
                percentiles("", &[(0, String::new(), &distribution)]).expect("the distribution has samples");
            assert!(plot.lines[0].points.is_sorted_by(|one, other| one.1 <= other.1));
        }
    }

    #[test]
    fn an_empty_distribution_has_no_plot() {
        let distribution = of(&[]);
        assert!(histogram("", &[(0, String::new(), &distribution)]).is_none());
        assert!(percentiles("", &[(0, String::new(), &distribution)]).is_none());
    }
}
