//! Plots with both axes logarithmic, as SVG that can be read on light and on dark ground: nothing is behind the lines,
//! and all colours stand out from white and from black.

use std::path::Path;

use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::{
    ChartBuilder, Circle, DrawingBackend, IntoDrawingArea, IntoFont, LineSeries, PathElement, RGBColor,
    SVGBackend, SeriesLabelPosition, ShapeStyle, TextStyle,
};

use super::Failure;
use super::statistics::{short, show};

const SIZE: (u32, u32) = (960, 560);
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

/// Draws the lines into a file. Zeros, which have no logarithm, stand where 1 would.
pub(crate) fn draw(path: &Path, axes: &Axes, lines: &[Line]) -> Result<(), Failure> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    chart(&root, axes, lines).map_err(|error| format!("cannot draw {}: {error}", path.display()))?;
    root.present().map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(())
}

fn chart<B: DrawingBackend>(
    root: &plotters::drawing::DrawingArea<B, plotters::coord::Shift>,
    axes: &Axes,
    lines: &[Line],
) -> Result<(), String> {
    let text = |size: i32| TextStyle::from(("sans-serif", size).into_font()).color(&INK);
    let of = |pick: fn(&(f64, f64)) -> f64| {
        let all = lines.iter().flat_map(|line| &line.points).map(pick);
        let (low, high) =
            all.fold((f64::MAX, 1.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        (low.clamp(0.01, 1e12), high)
    };
    let (xs, ys) = (of(|point| point.0.max(1.0)), of(|point| point.1.max(0.01)));
    let mut chart = ChartBuilder::on(root)
        .caption(&axes.title, text(20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d((xs.0..xs.1 * 1.1).log_scale(), (ys.0 / 1.3..ys.1 * 1.3).log_scale())
        .map_err(|error| error.to_string())?;
    chart
        .configure_mesh()
        .axis_style(INK)
        .bold_line_style(ShapeStyle::from(plotters::style::Color::mix(&INK, 0.3)))
        .light_line_style(ShapeStyle::from(plotters::style::Color::mix(&INK, 0.1)))
        .label_style(text(14))
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(&|size| label(*size))
        .y_label_formatter(&|figure| show(*figure))
        .draw()
        .map_err(|error| error.to_string())?;
    for (number, line) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let dot = ShapeStyle { color: colour.into(), filled: number < COLOURS.len(), stroke_width: 1 };
        let points = || line.points.iter().map(|&(x, y)| (x.max(1.0), y.max(0.01)));
        let style = ShapeStyle { color: colour.into(), filled: true, stroke_width: 2 };
        chart
            .draw_series(LineSeries::new(points(), style))
            .map_err(|error| error.to_string())?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        chart
            .draw_series(points().map(|point| Circle::new(point, 3, dot)))
            .map_err(|error| error.to_string())?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(text(13))
        .draw()
        .map_err(|error| error.to_string())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sizes are whole numbers")]
fn label(size: f64) -> String {
    short(size.round() as u64)
}
