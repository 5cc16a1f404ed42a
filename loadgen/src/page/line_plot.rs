//! Line plots as SVG, drawn by plotters. The benchmarks of the wheel include this file, too.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

const WIDTH: u32 = 640;
const MIN_HEIGHT: usize = 320;
/// Colours whose contrast with white and with the dark theme's background is more than 4.
const COLOURS: [u32; 12] = [
    0x2b77e1, 0xbd5f1b, 0x148a4f, 0xa64ce5, 0xe12e6a, 0x158590, 0x947515, 0x6e7882, 0xe23535, 0xd11ed1,
    0x6969ea, 0x3b8914,
];
/// Maximum number of points that are marked with dots.
const MAX_DOTS: usize = 60;
const LEGEND_ROW: usize = 20;
/// Maximum width of a label of the x axis. The last one may be centred on its end.
const MAX_LABEL: u32 = 60;

#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// Points by ascending x; `None` where nothing was measured.
    pub(super) points: Vec<(f64, Option<f64>)>,
}

/// Axis of a plot, linear or logarithmic.
pub(super) trait Axis: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>> {}

impl<A: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>> Axis for A {}

/// Draws the lines on a white background, with a legend if there are several.
pub(super) fn draw(
    title: &str,
    x: impl Axis,
    y: impl Axis,
    x_label: &dyn Fn(&f64) -> String,
    lines: &[Line],
) -> String {
    let mut svg = String::new();
    let draw = || -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let height = MIN_HEIGHT.max((lines.len() + 3) * LEGEND_ROW).try_into().unwrap_or(u32::MAX);
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        let text = ("sans-serif", 16).into_text_style(&area);
        area.fill(&WHITE)?;
        let area = area.titled(title, ("sans-serif", 18))?;
        let longest = lines.iter().map(|line| line.name.len()).max().filter(|_| lines.len() > 1);
        let legend_width = longest.map_or(Ok(0), |letters| u32::try_from(28 + 8 * letters));
        let (plot, legend) = area.split_horizontally(WIDTH - legend_width.unwrap_or(u32::MAX).min(WIDTH / 2));
        let mut chart = ChartBuilder::on(&plot)
            .margin(12)
            .margin_right(MAX_LABEL / 2)
            .x_label_area_size(24)
            .y_label_area_size(48)
            .build_cartesian_2d(x, y)?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().max_light_lines(1).x_labels(7).y_labels(6).label_style(text.clone());
        mesh.x_label_formatter(x_label).y_label_formatter(&|value| short(*value)).draw()?;
        let colours = COLOURS.map(|colour| colour.to_be_bytes()).map(|[_, r, g, b]| RGBColor(r, g, b));
        // After all colours have been used, they repeat with broader lines.
        let styles = [2, 4, 6].into_iter().flat_map(|width| colours.map(|it| it.stroke_width(width)));
        for ((line, style), y) in lines.iter().zip(styles).zip((18..).step_by(LEGEND_ROW)) {
            for stretch in line.points.split(|(_, y)| y.is_none()) {
                let points = stretch.iter().filter_map(|(x, y)| Some((*x, (*y)?)));
                let dots = if stretch.len() > MAX_DOTS { 0 } else { 2 };
                chart.draw_series(LineSeries::new(points, style).point_size(dots))?;
            }
            if lines.len() > 1 {
                legend.draw(&PathElement::new([(0, y), (14, y)], style))?;
                legend.draw_text(&line.name, &text, (20, y - 6))?;
            }
        }
        Ok(())
    };
    draw().expect("writing to a String cannot fail");
    svg
}

/// Returns a logarithmic axis of whole decades around the values, none of which is drawn below `least`. `None`
/// without values.
pub(super) fn decades(values: impl Iterator<Item = f64>, least: f64) -> Option<impl Axis> {
    let values = values.map(|value| value.max(least).log10());
    let (low, high) =
        values.map(|value| (value, value)).reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
    let (low, high) = (low.floor(), high.ceil().max(low.floor() + 1.0));
    // Widen it by as much as rounding errors may move its ends, so that both have labels.
    Some((10_f64.powf(low - 1e-9)..10_f64.powf(high + 1e-9)).log_scale())
}

/// Formats a number in a few characters, like 250k.
pub(super) fn short(value: f64) -> String {
    let prefixes = [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter();
    let (factor, prefix) = prefixes.clone().find(|(factor, _)| value >= *factor).unwrap_or((1.0, ""));
    let digits = format!("{:.4}", value / factor);
    format!("{}{prefix}", digits.trim_end_matches('0').trim_end_matches('.'))
}
