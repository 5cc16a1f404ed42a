//! Axes: map values to positions, and choose the values to label.

use crate::unit::{Unit, digits};

#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
    /// Values to mark, with their labels.
    pub(crate) marks: Vec<(f64, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Linear,
    Logarithmic,
    /// Scale for quantiles: each additional nine takes up the same distance.
    Nines,
}

/// Approximate number of marks.
const MARK_COUNT: f64 = 5.0;
/// Ratio of the ends below which a logarithmic axis gets evenly spaced marks: such a range may not contain
/// any of 1, 2 and 5 times a power of ten.
const NARROW_RATIO: f64 = 4.0;
const SECONDS: [f64; 16] =
    [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0];
const QUANTILES: [(f64, &str); 6] =
    [(0.0, "0"), (0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")];

impl Axis {
    /// Creates a linear axis from zero to at least `highest`, with round steps.
    pub fn from_zero(highest: f64, unit: Unit) -> Self {
        let highest = if highest.is_finite() && highest > 0.0 { highest } else { 1.0 };
        let (factor, name) = unit.step(highest);
        let step = round_step(highest / factor / MARK_COUNT) * factor;
        let count = (highest / step).ceil().max(1.0);
        let text = |value: f64| {
            if value == 0.0 { "0".to_owned() } else { format!("{}{name}", digits(value / factor)) }
        };
        let mark = |value: f64| (value, text(value));
        let marks = multiples(step, count).map(mark).collect();
        Self { low: 0.0, high: step * count, scale: Scale::Linear, marks }
    }

    /// Creates a logarithmic axis. Both ends must be above zero.
    pub fn logarithmic(lowest: f64, highest: f64, unit: Unit) -> Self {
        let (low, high) = if lowest < highest { (lowest, highest) } else { (lowest / 1.5, lowest * 1.5) };
        if high / low < NARROW_RATIO {
            return Self { low, high, scale: Scale::Logarithmic, marks: even_marks(low, high, unit) };
        }
        let steps: &[f64] = match high / low {
            ratio if ratio > 1e3 => &[1.0],
            ratio if ratio > 30.0 => &[1.0, 3.0],
            _ => &[1.0, 2.0, 5.0],
        };
        let mut decade = 10_f64.powf(low.log10().floor());
        let mut marks = Vec::new();
        while decade <= high {
            let values = steps.iter().map(|step| step * decade);
            let inside = values.filter(|value| (low * 0.999..=high * 1.001).contains(value));
            marks.extend(inside.map(|value| (value, unit.show(value))));
            decade *= 10.0;
        }
        Self { low, high, scale: Scale::Logarithmic, marks }
    }

    /// Creates a time axis from zero to `end`, in seconds since the start.
    pub fn time(end: f64) -> Self {
        let end = if end.is_finite() && end > 0.0 { end } else { 1.0 };
        let shortest = end / (MARK_COUNT + 2.0);
        let step = SECONDS.into_iter().find(|step| *step >= shortest);
        let step = step.unwrap_or_else(|| 3600.0 * round_step(shortest / 3600.0));
        let marks = multiples(step, (end / step).floor()).map(|value| (value, clock(value, step))).collect();
        Self { low: 0.0, high: end, scale: Scale::Linear, marks }
    }

    /// Creates an axis of quantiles up to `highest`, which must be below 1.
    pub fn quantiles(highest: f64) -> Self {
        let high = if highest.is_finite() { highest.clamp(0.9, 0.999_999) } else { 0.9 };
        let marks = QUANTILES.into_iter().filter(|(quantile, _)| *quantile <= high);
        let marks = marks.map(|(quantile, name)| (quantile, name.to_owned())).collect();
        Self { low: 0.0, high, scale: Scale::Nines, marks }
    }

    /// Returns the position of a value, from 0 at the low end to 1 at the high end. Values outside the axis
    /// are clamped.
    pub(crate) fn position(&self, value: f64) -> f64 {
        let along = |value: f64| match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(self.low).ln(),
            Scale::Nines => -(1.0 - value.min(self.high)).ln(),
        };
        let (low, high) = (along(self.low), along(self.high));
        ((along(value) - low) / (high - low)).clamp(0.0, 1.0)
    }

    pub(crate) fn low(&self) -> f64 {
        self.low
    }
}

/// Returns evenly spaced round values for a range whose ends are close together.
fn even_marks(low: f64, high: f64, unit: Unit) -> Vec<(f64, String)> {
    let step = round_step((high - low) / MARK_COUNT);
    let first = (low / step * (1.0 - 1e-9)).ceil();
    let values = multiples(step, 2.0 * MARK_COUNT).map(|offset| first * step + offset);
    values.take_while(|value| *value <= high * (1.0 + 1e-9)).map(|value| (value, unit.show(value))).collect()
}

/// Returns 0 and the first `count` multiples of `step`, at most 100 values.
fn multiples(step: f64, count: f64) -> impl Iterator<Item = f64> {
    (0_u16..).map(f64::from).take_while(move |index| *index <= count).take(100).map(move |index| index * step)
}

/// Returns the smallest of 1, 2 or 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= least * (1.0 - 1e-9)).unwrap_or(steps[3])
}

/// Formats seconds as a clock time, with the precision of the step.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole numbers above zero")]
fn clock(seconds: f64, step: f64) -> String {
    if step < 1.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(axis: &Axis) -> Vec<&str> {
        axis.marks.iter().map(|(_, text)| text.as_str()).collect()
    }

    #[test]
    fn marks_are_round() {
        assert_eq!(marks(&Axis::from_zero(19_000.0, Unit::Plain)), ["0", "5k", "10k", "15k", "20k"]);
        assert_eq!(marks(&Axis::from_zero(0.7, Unit::Millis)), ["0", "200 µs", "400 µs", "600 µs", "800 µs"]);
        assert_eq!(marks(&Axis::from_zero(3.0 * 1_048_576.0, Unit::Bytes))[1], "1 MiB");
        assert_eq!(marks(&Axis::time(6.0)), ["0 s", "1 s", "2 s", "3 s", "4 s", "5 s", "6 s"]);
        assert_eq!(marks(&Axis::time(1200.0)), ["0 s", "5:00", "10:00", "15:00", "20:00"]);
        assert_eq!(marks(&Axis::logarithmic(0.5, 20.0, Unit::Millis)), ["1 ms", "3 ms", "10 ms"]);
        assert_eq!(marks(&Axis::logarithmic(8.1, 12.5, Unit::Millis)), ["9 ms", "10 ms", "11 ms", "12 ms"]);
        assert_eq!(marks(&Axis::quantiles(0.9991)), ["0", "50 %", "90 %", "99 %", "99.9 %"]);
    }

    #[test]
    fn values_lie_between_the_ends() {
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(near(Axis::from_zero(10.0, Unit::Plain).position(5.0), 0.5));
        assert!(near(Axis::logarithmic(1.0, 100.0, Unit::Millis).position(10.0), 0.5));
        assert!(near(Axis::quantiles(0.99).position(0.9), 0.5));
        for axis in [
            Axis::from_zero(10.0, Unit::Plain),
            Axis::logarithmic(1.0, 100.0, Unit::Millis),
            Axis::quantiles(0.99),
            Axis::time(10.0),
        ] {
            assert!(near(axis.position(-5.0), 0.0) && near(axis.position(1e9), 1.0), "{axis:?}");
        }
    }

    #[test]
    fn odd_ranges_are_accepted() {
        for odd in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-12, 1e300] {
            for axis in [Axis::from_zero(odd, Unit::Bytes), Axis::time(odd), Axis::quantiles(odd)] {
                assert!(axis.marks.len() <= 101 && axis.position(0.5).is_finite(), "{odd}: {axis:?}");
            }
        }
        let axis = Axis::logarithmic(2.0, 2.0, Unit::Millis);
        assert!(axis.position(2.0).is_finite() && axis.marks.contains(&(2.0, "2 ms".to_owned())), "{axis:?}");
    }
}
