use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
    pub runs: usize,
}

impl Spread {
    pub fn of(mut figures: Vec<f64>) -> Option<Spread> {
        figures.sort_by(f64::total_cmp);
        let (&min, &max) = (figures.first()?, figures.last()?);
        let middle = figures.len() / 2;
        let median = if figures.len() % 2 == 1 {
            figures[middle]
        } else {
            f64::midpoint(figures[middle - 1], figures[middle])
        };
        Some(Spread { median, min, max, runs: figures.len() })
    }

    /// Formats the median and, if there were several runs, the maximum deviation from it in percent.
    pub fn show(&self) -> String {
        let median = show(self.median);
        if self.runs < 2 || self.median == 0.0 {
            return median;
        }
        let off = (self.max - self.median).max(self.median - self.min);
        format!("{median} ±{:.0}%", 100.0 * off / self.median)
    }
}

/// Formats a number with about three digits.
pub fn show(figure: f64) -> String {
    match figure.abs() {
        0.0 => "0".to_owned(),
        ..0.1 => format!("{figure:.3}"),
        ..10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.0}"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub fn ns_each(time: Duration, count: u64) -> f64 {
    time.as_nanos() as f64 / count.max(1) as f64
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub fn ratio(these: u64, those: u64) -> f64 {
    these as f64 / those.max(1) as f64
}

/// Formats a count as 10k, 1M and the like.
pub fn short(count: u64) -> String {
    match count {
        0 => "0".to_owned(),
        count if count.is_multiple_of(1_000_000) => format!("{}M", count / 1_000_000),
        count if count.is_multiple_of(1_000) => format!("{}k", count / 1_000),
        count => count.to_string(),
    }
}
