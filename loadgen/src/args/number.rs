//! Numbers and lengths of time within a range.

use std::time::Duration;

pub(super) fn parse_rate(text: &str) -> Result<f64, String> {
    parse_in(text, |rate| (0.001..=1_000_000.0).contains(&rate), "from 0.001 to 1000000")
}

pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    parse_in(text, |share| share > 0.0 && share <= 1.0, "above 0 and up to 1")
}

pub(super) fn parse_share_or_none(text: &str) -> Result<f64, String> {
    parse_in(text, |share| (0.0..=1.0).contains(&share), "from 0 to 1")
}

pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if interval.is_zero() { Err("must not be zero".to_owned()) } else { Ok(interval) }
}

fn parse_in(text: &str, allowed: fn(f64) -> bool, range: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if allowed(number) { Ok(number) } else { Err(format!("must be {range}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shares_have_bounds() {
        assert_eq!(parse_rate("2000"), Ok(2000.0));
        assert_eq!(parse_share("0.5"), Ok(0.5));
        assert_eq!(parse_share_or_none("0"), Ok(0.0));
        for bad in ["0", "-1", "nan", "inf", "x"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
            assert!(parse_share(bad).is_err(), "{bad}");
        }
        assert!(parse_share("1.1").is_err());
    }
}
