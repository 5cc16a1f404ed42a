//! Parsers for numbers and durations within a range.

use std::time::Duration;

pub(super) fn parse_rate(text: &str) -> Result<f64, String> {
    parse_in_range(text, |rate| (0.001..=1_000_000.0).contains(&rate), "from 0.001 to 1000000")
}

pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    parse_in_range(text, |share| share > 0.0 && share <= 1.0, "above 0 and up to 1")
}

pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text)?;
    if interval.is_zero() { Err("must not be zero".to_owned()) } else { Ok(interval) }
}

/// The limit keeps sums of durations and times within the range of `Instant`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let limit = Duration::from_secs(366 * 24 * 3600);
    if duration > limit { Err("must be at most 366 days".to_owned()) } else { Ok(duration) }
}

fn parse_in_range(text: &str, allowed: fn(f64) -> bool, range: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if allowed(number) { Ok(number) } else { Err(format!("must be {range}")) }
}
