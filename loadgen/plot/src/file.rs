//! A plot as a standalone SVG file, with title, legend and style sheet.

use maud::{PreEscaped, html};

use crate::STYLE;
use crate::labels::text_width;
use crate::plot::{LEFT, Line, Plot, WIDTH};

/// Space above the plot, for its title.
const TITLE_HEIGHT: f64 = 26.0;
/// Height of a row of the legend.
const LEGEND_ROW_HEIGHT: f64 = 18.0;
/// Width of the line sample in front of a name, including the gap.
const LEGEND_STROKE_WIDTH: f64 = 22.0;
const LEGEND_GAP: f64 = 10.0;

impl Plot {
    /// Returns the plot as an SVG document.
    pub fn to_svg(&self) -> String {
        let places = places(&self.lines);
        let end = places.last().map_or(self.height, |(_, y)| self.height + y + LEGEND_ROW_HEIGHT);
        let svg = html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 " (-TITLE_HEIGHT) " " (WIDTH) " " (end + TITLE_HEIGHT) }
                width=(WIDTH) role="img" aria-label=(self.title) {
                style { (PreEscaped(STYLE)) }
                text.title x="0" y="-8" {
                    (self.title)
                    @if !self.note.is_empty() { tspan dx="8" font-size="11" font-weight="400" { (self.note) } }
                }
                (self.drawing())
                @for (line, (x, y)) in self.lines.iter().zip(places) {
                    @let y = self.height + y + LEGEND_ROW_HEIGHT / 2.0;
                    path class={ "line " (line.colour) } d={ "M" (x) " " (y) "h16" } {}
                    text x=(x + LEGEND_STROKE_WIDTH) y=(y) dy="0.35em" { (line.name) }
                }
            }
        };
        svg.into_string()
    }
}

/// Returns the positions of the legend's entries, wrapped into rows.
fn places(lines: &[Line]) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (LEFT, 0.0);
    let mut places = Vec::new();
    for line in lines {
        let width = LEGEND_STROKE_WIDTH + text_width(&line.name) + LEGEND_GAP;
        if x > LEFT && x + width > WIDTH {
            (x, y) = (LEFT, y + LEGEND_ROW_HEIGHT);
        }
        places.push((x, y));
        x += width;
    }
    places
}

#[cfg(test)]
mod tests {
    use roxmltree::Document;

    use super::*;
    use crate::{Axis, LineStyle, Unit, colour};

    #[test]
    fn a_file_has_all_names_without_overlaps() {
        let line = |number: usize| Line {
            name: format!("structure <{number}>"),
            colour: colour(number),
            points: vec![(1.0, Some(2.0)), (1e6, Some(40.0)), (2e6, None), (3e6, Some(0.0))],
        };
        let plot = Plot {
            title: "nanoseconds & more".to_owned(),
            note: "by timers".to_owned(),
            x: Axis::logarithmic(1.0, 3e6, Unit::Plain),
            y: Axis::logarithmic(0.01, 40.0, Unit::Plain),
            unit: Unit::Plain,
            bands: Vec::new(),
            lines: (0..11).map(line).collect(),
            style: LineStyle::Dots,
            height: 400.0,
        };
        let svg = plot.to_svg();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        let xml = Document::parse(&svg).expect("it is valid XML");
        for number in 0..11 {
            let name = format!("structure <{number}>");
            assert!(
                xml.descendants().any(|node| node.has_tag_name("text") && node.text() == Some(&name)),
                "{name}"
            );
        }
        assert_eq!(xml.descendants().filter(|node| node.has_tag_name("circle")).count(), 11 * 3);
        let places = places(&plot.lines);
        for (line, (x, y)) in plot.lines.iter().zip(&places) {
            let end = x + LEGEND_STROKE_WIDTH + text_width(&line.name);
            assert!(end <= WIDTH, "{} ends at {end}", line.name);
            assert!(places.iter().all(|(its, row)| row != y || its <= x || *its > end), "{}", line.name);
        }
        assert!(svg.contains("dashed"), "colours repeat after eight");
    }
}
