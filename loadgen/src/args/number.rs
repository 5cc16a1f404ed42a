//! Numbers within a range.

pub(super) fn parse_rate(text: &str) -> Result<f64, String> {
    parse_in(text, |rate| (0.001..=1_000_000.0).contains(&rate), "from 0.001 to 1000000")
}

pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    parse_in(text, |share| share > 0.0 && share <= 1.0, "above 0 and up to 1")
}

pub(super) fn parse_share_or_none(text: &str) -> Result<f64, String> {
    parse_in(text, |share| (0.0..=1.0).contains(&share), "from 0 to 1")
}

fn parse_in(text: &str, allowed: fn(f64) -> bool, range: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if allowed(number) { Ok(number) } else { Err(format!("must be {range}")) }
}
