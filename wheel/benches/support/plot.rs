//! Plots with both axes logarithmic, as SVG that can be read on light and on dark ground: nothing is behind the lines,
//! and all colours stand out from white and from black.

use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::combinators::IntoLogRange;
use plotters::drawing::DrawingArea;
use plotters::prelude::{
    ChartBuilder, Circle, Color, DrawingBackend, IntoDrawingArea, IntoFont, LineSeries, PathElement,
    RGBColor, SVGBackend, ShapeStyle, Text, TextStyle,
};

use super::Failure;
use super::statistics::{short, show};

const SIZE: (u32, u32) = (960, 540);
/// How much of the width the names take.
const LEGEND: u32 = 250;
const DOT: i32 = 3;
type Area<B> = DrawingArea<B, Shift>;

const INK: RGBColor = RGBColor(0x80, 0x80, 0x80);

/// Of middling lightness, and told apart by hue. Dots tell the first round from the second.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0xe0, 0x43, 0x3a),
    RGBColor(0x2f, 0x83, 0xd8),
    RGBColor(0x2a, 0x9d, 0x52),
    RGBColor(0xc9, 0x82, 0x0e),
    RGBColor(0x9a, 0x5c, 0xd0),
    RGBColor(0x12, 0x9a, 0xa5),
    RGBColor(0xd3, 0x4f, 0x9b),
    RGBColor(0x8c, 0x7a, 0x52),
];

#[derive(Debug)]
pub(crate) struct Axes {
    pub(crate) title: String,
    pub(crate) x: &'static str,
    pub(crate) y: &'static str,
}

#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

impl Line {
    fn end(&self) -> f64 {
        self.points.last().map_or(0.0, |&(_, y)| y)
    }
}

/// Draws the lines into a file. Zeros, which have no logarithm, stand at the lower end.
pub(crate) fn draw(path: &Path, axes: &Axes, lines: &[Line]) -> Result<(), Failure> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    let (left, right) = root.split_horizontally(SIZE.0 - LEGEND);
    chart(&left, axes, lines)
        .and_then(|()| legend(&right, lines))
        .map_err(|error| format!("cannot draw {}: {error}", path.display()))?;
    root.present().map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(())
}

fn chart<B: DrawingBackend>(area: &Area<B>, axes: &Axes, lines: &[Line]) -> Result<(), String> {
    let (xs, ys) = (bounds(lines, |point| point.0.max(1.0)), bounds(lines, |point| point.1.max(0.01)));
    let mut chart = ChartBuilder::on(area)
        .caption(&axes.title, text(20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((xs.0..xs.1 * 1.1).log_scale(), (ys.0 / 1.3..ys.1 * 1.3).log_scale())
        .map_err(|error| error.to_string())?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(INK.mix(0.3))
        .light_line_style(INK.mix(0.1))
        .label_style(text(14))
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|size| label(*size))
        .y_label_formatter(&|figure| label(*figure))
        .draw()
        .map_err(|error| error.to_string())?;
    for (number, line) in lines.iter().enumerate() {
        let points = || line.points.iter().map(|&(x, y)| (x.max(1.0), y.max(0.01)));
        let series = LineSeries::new(points(), stroke(number));
        chart.draw_series(series).map_err(|error| error.to_string())?;
        let dots = points().map(|point| Circle::new(point, DOT, dot(number)));
        chart.draw_series(dots).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The names of the lines, in the order in which these end, so that the eye finds them.
fn legend<B: DrawingBackend>(area: &Area<B>, lines: &[Line]) -> Result<(), String> {
    let mut numbers: Vec<usize> = (0..lines.len()).collect();
    numbers.sort_by(|&one, &other| lines[other].end().total_cmp(&lines[one].end()));
    for (y, number) in (60..).step_by(24).zip(numbers) {
        let line = PathElement::new([(4, y), (32, y)], stroke(number));
        area.draw(&line).map_err(|error| error.to_string())?;
        area.draw(&Circle::new((18, y), DOT, dot(number))).map_err(|error| error.to_string())?;
        let name = Text::new(lines[number].name.clone(), (40, y - 6), text(14));
        area.draw(&name).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn text(size: i32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).color(&INK)
}

/// The first line, which is ours, is the broadest.
fn stroke(number: usize) -> ShapeStyle {
    let colour = COLOURS[number % COLOURS.len()];
    colour.stroke_width(if number == 0 { 4 } else { 2 })
}

fn dot(number: usize) -> ShapeStyle {
    ShapeStyle { filled: number < COLOURS.len(), ..COLOURS[number % COLOURS.len()].stroke_width(1) }
}

/// From where to where the lines go.
fn bounds(lines: &[Line], pick: fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let all = lines.iter().flat_map(|line| &line.points).map(pick);
    let (low, high) = all.fold((f64::MAX, 1.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    (low.min(high), high)
}

fn label(figure: f64) -> String {
    if figure < 1_000.0 { show(figure) } else { short(whole(figure)) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "marks of an axis are whole numbers"
)]
fn whole(figure: f64) -> u64 {
    figure.round() as u64
}
