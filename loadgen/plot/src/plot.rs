//! One plot as SVG, with its legend as HTML.

use std::fmt::Write;

use maud::{Markup, PreEscaped, html};

use crate::axis::Axis;
use crate::labels::{anchor, text_width};
use crate::unit::Unit;

pub(crate) const WIDTH: f64 = 600.0;
pub(crate) const LEFT: f64 = 58.0;
const RIGHT: f64 = 588.0;
const TOP: f64 = 20.0;
/// Space below the x axis, for its labels.
const AXIS_LABEL_HEIGHT: f64 = 28.0;
const COLOURS: usize = 8;
/// Number of points above which a line is drawn thinner.
const DENSE_POINTS: usize = 300;

#[derive(Debug)]
pub struct Plot {
    pub title: String,
    /// Additional text after the title.
    pub note: String,
    pub x: Axis,
    pub y: Axis,
    pub unit: Unit,
    /// Named ranges of the x axis.
    pub bands: Vec<(f64, f64, String)>,
    pub lines: Vec<Line>,
    pub style: LineStyle,
    /// Height in units of the SVG, in which the plot is 600 wide.
    pub height: f64,
}

/// Height of most plots.
pub const HEIGHT: f64 = 250.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStyle {
    Lines,
    /// Lines with a dot at every point.
    Dots,
    /// Horizontal and vertical steps from each point to the next.
    Steps,
}

#[derive(Debug)]
pub struct Line {
    pub name: String,
    /// CSS classes, as returned by [`colour`].
    pub colour: String,
    /// Points by ascending x; `None` where nothing was measured.
    pub points: Vec<(f64, Option<f64>)>,
}

/// Returns the CSS classes of the line with this number. After eight colours they repeat, dashed.
pub fn colour(number: usize) -> String {
    format!("c{}{}", number % COLOURS, if number < COLOURS { "" } else { " dashed" })
}

impl Line {
    pub fn highest(&self) -> Option<f64> {
        self.points.iter().filter_map(|(_, y)| *y).reduce(f64::max)
    }
}

impl Plot {
    pub fn draw(&self) -> Markup {
        html! {
            figure {
                figcaption { (self.title) @if !self.note.is_empty() { " " small { (self.note) } } }
                svg viewBox={ "0 0 " (WIDTH) " " (self.height) } role="img" aria-label=(self.title) {
                    (self.drawing())
                }
                @if self.lines.len() > 1 || self.style == LineStyle::Lines { (self.legend()) }
            }
        }
    }

    pub(crate) fn drawing(&self) -> Markup {
        html! {
            (self.draw_bands())
            (self.draw_axes())
            @for line in &self.lines { (self.draw_line(line)) }
        }
    }

    fn bottom(&self) -> f64 {
        self.height - AXIS_LABEL_HEIGHT
    }

    fn legend(&self) -> Markup {
        html! {
            ul.legend {
                @for line in &self.lines {
                    li {
                        i class=(line.colour) {}
                        (line.name)
                        @if let (Some(highest), LineStyle::Lines) = (line.highest(), self.style) {
                            " " small { "max " (self.unit.show(highest)) }
                        }
                    }
                }
            }
        }
    }

    /// Draws the bands. A name that does not fit is only shown as a tooltip.
    fn draw_bands(&self) -> Markup {
        html! {
            @for (index, (start, end, name)) in self.bands.iter().enumerate() {
                @let (left, right) = (self.at_x(*start), self.at_x(*end));
                @let room = right - left;
                g {
                    title { (name) }
                    rect class=(if index % 2 == 0 { "band" } else { "band other" })
                        x=(format_coordinate(left)) y=(TOP) width=(format_coordinate(room)) height=(self.bottom() - TOP) {}
                    @if text_width(name) < room {
                        text.phase x=(format_coordinate(left + room / 2.0)) y=(TOP - 6.0) text-anchor="middle" { (name) }
                    }
                }
            }
        }
    }

    fn draw_axes(&self) -> Markup {
        html! {
            @for (value, text) in &self.y.marks {
                @let y = format_coordinate(self.at_y(*value));
                path.rule d={ "M" (LEFT) " " (y) "H" (RIGHT) } {}
                text x=(LEFT - 6.0) y=(y) dy="0.35em" text-anchor="end" { (text) }
            }
            path.axis d={ "M" (LEFT) " " (self.bottom()) "H" (RIGHT) } {}
            @for (x, text) in self.visible_x_marks() {
                path.axis d={ "M" (format_coordinate(x)) " " (self.bottom()) "v4" } {}
                text x=(format_coordinate(x)) y=(self.bottom() + 17.0) text-anchor=(anchor(x, text)) { (text) }
            }
        }
    }

    fn draw_line(&self, line: &Line) -> Markup {
        let mut path = String::new();
        let mut dots = Vec::new();
        match self.style {
            LineStyle::Steps => self.add_steps(line, &mut path),
            LineStyle::Lines | LineStyle::Dots => self.add_lines(line, &mut path, &mut dots),
        }
        let class = match self.style {
            LineStyle::Steps => "steps",
            LineStyle::Lines if line.points.len() > DENSE_POINTS => "line dense",
            LineStyle::Lines | LineStyle::Dots => "line",
        };
        html! {
            path class={ (class) " " (line.colour) } d=(PreEscaped(path)) { title { (line.name) } }
            @for (x, y) in dots {
                circle class=(line.colour) cx=(format_coordinate(x)) cy=(format_coordinate(y)) r="3" {}
            }
        }
    }

    /// Connects neighbouring points with lines. A point without neighbours becomes a dot.
    fn add_lines(&self, line: &Line, path: &mut String, dots: &mut Vec<(f64, f64)>) {
        for stretch in line.points.split(|(_, y)| y.is_none()) {
            let at: Vec<_> =
                stretch.iter().filter_map(|(x, y)| Some((self.at_x(*x), self.at_y((*y)?)))).collect();
            match thinned(&at)[..] {
                [] => {}
                [point] => dots.push(point),
                ref points => {
                    if self.style == LineStyle::Dots {
                        dots.extend(points);
                    }
                    for (index, (x, y)) in points.iter().enumerate() {
                        let letter = if index == 0 { 'M' } else { 'L' };
                        write!(path, "{letter}{} {}", format_coordinate(*x), format_coordinate(*y))
                            .expect("writing to a String cannot fail");
                    }
                }
            }
        }
    }

    fn add_steps(&self, line: &Line, path: &mut String) {
        let (mut begun, bottom) = (false, self.bottom());
        for (x, y) in &line.points {
            let (x, y) =
                (format_coordinate(self.at_x(*x)), format_coordinate(self.at_y(y.unwrap_or(self.y.low()))));
            let start = if begun { String::new() } else { format!("M{x} {bottom}") };
            write!(path, "{start}H{x}V{y}").expect("writing to a String cannot fail");
            begun = true;
        }
        if begun {
            write!(path, "V{bottom}Z").expect("writing to a String cannot fail");
        }
    }

    pub(crate) fn at_x(&self, value: f64) -> f64 {
        LEFT + self.x.position(value) * (RIGHT - LEFT)
    }

    fn at_y(&self, value: f64) -> f64 {
        self.bottom() - self.y.position(value) * (self.bottom() - TOP)
    }
}

/// Keeps at most the lowest and the highest point of every half pixel: the others would not be visible.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let column = |point: &(f64, f64)| (point.0 * 2.0).floor();
    let mut thin: Vec<(f64, f64)> = Vec::new();
    for group in points.chunk_by(|one, other| column(one) == column(other)) {
        if group.len() <= 2 {
            thin.extend(group);
            continue;
        }
        let by_y = |one: &&(f64, f64), other: &&(f64, f64)| one.1.total_cmp(&other.1);
        thin.extend(group.iter().min_by(by_y).into_iter().chain(group.iter().max_by(by_y)));
    }
    thin
}

/// Formats a coordinate with one decimal.
fn format_coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
