//! Labels of a plot's x axis: which ones fit, and where each one begins and ends.

use crate::plot::{LEFT, Plot, WIDTH};

/// Approximate width of a character at the largest font size, which the style sheet uses on narrow screens.
const CHAR_WIDTH: f64 = 8.5;

impl Plot {
    /// Returns the marks of the x axis, without the ones whose labels would overlap.
    pub(crate) fn visible_x_marks(&self) -> Vec<(f64, &str)> {
        let mut taken = f64::MIN;
        let mut marks = Vec::new();
        for (value, text) in &self.x.marks {
            let x = self.at_x(*value);
            let (start, end) = extent(x, text);
            if start > taken {
                taken = end + CHAR_WIDTH;
                marks.push((x, text.as_str()));
            }
        }
        marks
    }
}

/// Returns the text anchor of a label. Labels at the edges begin or end at their mark, so that they are not
/// cut off and do not overlap the labels of the other axis.
pub(crate) fn anchor(x: f64, text: &str) -> &'static str {
    let half = text_width(text) / 2.0;
    match x {
        x if x - half < LEFT => "start",
        x if x + half > WIDTH => "end",
        _ => "middle",
    }
}

/// Returns where a label of the x axis begins and ends.
fn extent(x: f64, text: &str) -> (f64, f64) {
    let width = text_width(text);
    let start = match anchor(x, text) {
        "start" => x,
        "end" => x - width,
        _ => x - width / 2.0,
    };
    (start, start + width)
}

/// Returns the approximate width of a string.
#[expect(clippy::cast_precision_loss, reason = "no text is that long")]
pub(crate) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * CHAR_WIDTH
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::axis::Axis;
    use crate::plot::{HEIGHT, LineStyle};
    use crate::unit::Unit;

    /// Tests many axes with different ends.
    #[test]
    fn labels_of_the_x_axis_do_not_overlap() {
        let ends = (0..400_u16).map(|step| 1.01_f64.powi(i32::from(step)));
        for (low, ratio) in ends.flat_map(|low| [2.0, 5.0, 40.0, 2e4].map(|ratio| (low, ratio))) {
            let axis = || Axis::logarithmic(low, low * ratio, Unit::Millis);
            let (title, note) = Default::default();
            let (bands, lines, unit, form) = (Vec::new(), Vec::new(), Unit::Millis, LineStyle::Lines);
            let plot =
                Plot { title, note, x: axis(), y: axis(), unit, bands, lines, style: form, height: HEIGHT };
            let extents: Vec<_> =
                plot.visible_x_marks().into_iter().map(|(x, text)| extent(x, text)).collect();
            assert!(
                extents.iter().all(|(start, end)| LEFT <= *start && *end <= WIDTH),
                "{low} {ratio}: {extents:?}"
            );
            assert!(extents.windows(2).all(|pair| pair[0].1 < pair[1].0), "{low} {ratio}: {extents:?}");
        }
    }
}
