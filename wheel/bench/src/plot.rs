//! SVG plots with two logarithmic axes.

use std::fs;
use std::path::Path;

use super::BenchError;
use super::line_plot::{self, Line, decades, short};

/// Position at which zeros are drawn, because they have no logarithm.
const LEAST: (f64, f64) = (1.0, 0.01);

#[derive(Debug)]
pub struct Axes {
    pub title: String,
    pub x: &'static str,
    pub y: &'static str,
}

pub(super) fn draw(path: &Path, axes: &Axes, mut lines: Vec<Line>) -> Result<(), BenchError> {
    let points = lines.iter_mut().flat_map(|line| &mut line.points);
    points.for_each(|(x, y)| (*x, *y) = (x.max(LEAST.0), y.map(|y| y.max(LEAST.1))));
    // Sort by last value, so that the legend is in the order of the line ends.
    let end = |line: &Line| line.points.last().and_then(|(_, y)| *y).unwrap_or_default();
    lines.sort_by(|one, other| end(other).total_cmp(&end(one)));
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = decades(points().map(|(x, _)| *x), LEAST.0).ok_or("nothing was measured")?;
    let y = decades(points().filter_map(|(_, y)| *y), LEAST.1).ok_or("nothing was measured")?;
    let title = format!("{} ({}, by {})", axes.title, axes.y, axes.x);
    let svg = line_plot::draw(&title, x, y, &|x| short(*x), &lines);
    fs::write(path, svg).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(())
}
