//! Parsers for numbers and durations within a range.

use std::time::Duration;

use bytesize::ByteSize;

pub(super) fn parse_rate(text: &str) -> Result<f64, String> {
    parse_in_range(text, |rate| (0.001..=1_000_000.0).contains(&rate), "from 0.001 to 1000000")
}

pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    parse_in_range(text, |share| share > 0.0 && share <= 1.0, "above 0 and up to 1")
}

pub(super) fn parse_share_or_zero(text: &str) -> Result<f64, String> {
    parse_in_range(text, |share| (0.0..=1.0).contains(&share), "from 0 to 1")
}

pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if interval.is_zero() { Err("must not be zero".to_owned()) } else { Ok(interval) }
}

/// Parses a rate in bytes per second, like "6000", "6KB/s" or "6KiB/s", or in bits, as is usual for links,
/// like "48kbit/s".
pub(super) fn parse_bytes_per_second(text: &str) -> Result<u32, String> {
    const MAX_RATE: u64 = 1_000_000;
    let amount = text.trim().strip_suffix("/s").unwrap_or(text.trim());
    let bytes = match amount.strip_suffix("bit") {
        Some(bits) => parse_bits(bits)? / 8,
        None => amount.parse::<ByteSize>()?.as_u64(),
    };
    let bytes = u32::try_from(bytes).ok().filter(|bytes| u64::from(*bytes) <= MAX_RATE);
    bytes.ok_or_else(|| format!("must be at most {MAX_RATE} bytes per second"))
}

/// Parses a number of bits, with or without a decimal prefix.
fn parse_bits(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.strip_suffix('k') {
        Some(number) => (number, 1000),
        None => text.strip_suffix('M').map_or((text, 1), |number| (number, 1_000_000)),
    };
    let bits = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bits.ok_or_else(|| "must be a number of bit, kbit or Mbit".to_owned())
}

fn parse_in_range(text: &str, allowed: fn(f64) -> bool, range: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if allowed(number) { Ok(number) } else { Err(format!("must be {range}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed_in_bytes_or_bits() {
        for (text, bytes) in [
            ("0", 0),
            ("6000", 6000),
            ("6KB/s", 6000),
            ("6KiB/s", 6144),
            ("1.5 KB/s", 1500),
            ("8kbit/s", 1000),
            ("64 kbit/s", 8000),
            ("8Mbit/s", 1_000_000),
            ("800bit", 100),
        ] {
            assert_eq!(parse_bytes_per_second(text), Ok(bytes), "{text}");
        }
        for bad in ["", "x", "6KB/m", "-1", "1MB1", "9Mbit/s", "1.5kbit/s", "99999999999999999999kbit/s"] {
            assert!(parse_bytes_per_second(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_and_shares_have_bounds() {
        assert_eq!(parse_rate("2000"), Ok(2000.0));
        assert_eq!(parse_share("0.5"), Ok(0.5));
        assert_eq!(parse_share_or_zero("0"), Ok(0.0));
        for bad in ["0", "-1", "nan", "inf", "x"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
            assert!(parse_share(bad).is_err(), "{bad}");
        }
        assert!(parse_share("1.1").is_err());
    }
}
