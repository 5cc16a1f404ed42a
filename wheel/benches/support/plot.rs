//! SVG plots with two logarithmic axes, readable on light and dark backgrounds.

use std::fs;
use std::path::Path;

use encke_plot::{Axis, LineStyle, Plot, Unit, colour};

use super::BenchError;

const HEIGHT: f64 = 420.0;
/// Position at which zeros are drawn, because they have no logarithm.
const LEAST: (f64, f64) = (1.0, 0.01);

#[derive(Debug)]
pub(crate) struct Axes {
    pub(crate) title: String,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
}

#[derive(Debug)]
pub(crate) struct PlotLine {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

pub(crate) fn draw(path: &Path, axes: &Axes, lines: &[PlotLine]) -> Result<(), BenchError> {
    let xs = bounds(lines, |point| point.0.max(LEAST.0));
    let ys = bounds(lines, |point| point.1.max(LEAST.1));
    let mut drawn: Vec<_> = lines.iter().enumerate().map(|(number, line)| drawn(number, line)).collect();
    // Sort by last value, so that the legend is in the order of the line ends.
    let end = |line: &encke_plot::Line| line.points.last().and_then(|(_, y)| *y).unwrap_or_default();
    drawn.sort_by(|one, other| end(other).total_cmp(&end(one)));
    let plot = Plot {
        title: axes.title.clone(),
        note: format!("{}, by {}", axes.y, axes.x),
        x: Axis::logarithmic(xs.0, xs.1 * 1.1, Unit::Plain),
        y: Axis::logarithmic(ys.0 / 1.3, ys.1 * 1.3, Unit::Plain),
        unit: Unit::Plain,
        bands: Vec::new(),
        lines: drawn,
        style: LineStyle::Dots,
        height: HEIGHT,
    };
    fs::write(path, plot.to_svg()).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(())
}

fn drawn(number: usize, line: &PlotLine) -> encke_plot::Line {
    let points = line.points.iter().map(|&(x, y)| (x.max(LEAST.0), Some(y.max(LEAST.1))));
    encke_plot::Line { name: line.name.clone(), colour: colour(number), points: points.collect() }
}

fn bounds(lines: &[PlotLine], pick: fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let all = lines.iter().flat_map(|line| &line.points).map(pick);
    let (low, high) = all.fold((f64::MAX, 1.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    (low.min(high), high)
}
