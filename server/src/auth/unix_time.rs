use std::time::Duration;

use serde_json::Value;

/// A point in time by the wall clock, in milliseconds since 1970. Tokens alone are about it: every timeout of the
/// server is about [`Timestamp`](encke_core::Timestamp)s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime {
    millis: u64,
}

impl UnixTime {
    /// Whole seconds since 1970.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self { millis: secs.saturating_mul(1000) }
    }

    /// Time since 1970.
    #[must_use]
    pub fn since_epoch(duration: Duration) -> Self {
        Self { millis: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX) }
    }

    /// Whole seconds since 1970. A fraction counts as one: what expires then has not expired before.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.millis.div_ceil(1000)
    }

    /// How long from `earlier` until this; nothing when it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.millis.saturating_sub(earlier.millis))
    }

    /// A `NumericDate` (RFC 7519, section 2): seconds since 1970, with a fraction or without. A fraction of a
    /// millisecond counts as one: nothing expires early.
    pub(super) fn from_numeric_date(value: &Value) -> Option<Self> {
        if let Some(secs) = value.as_u64() {
            return Some(Self::from_secs(secs));
        }
        let duration = Duration::try_from_secs_f64(value.as_f64()?).ok()?;
        Some(Self::since_epoch(duration.saturating_add(Duration::from_nanos(999_999))))
    }
}

impl std::ops::Add<Duration> for UnixTime {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self { millis: self.millis.saturating_add(Self::since_epoch(duration).millis) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_dates() {
        for (text, millis) in [
            ("0", Some(0)),
            ("1700000000", Some(1_700_000_000_000)),
            ("1700000000.0", Some(1_700_000_000_000)),
            ("1700000000.25", Some(1_700_000_000_250)),
            ("1.5e3", Some(1_500_000)),
            ("0.0001", Some(1)),
            ("18446744073709551615", Some(u64::MAX)),
            ("1e19", Some(u64::MAX)),
            ("1e300", None),
            ("-1", None),
            ("-0.5", None),
            ("\"1700000000\"", None),
            ("true", None),
            ("[]", None),
        ] {
            let value = serde_json::from_str(text).expect("JSON");
            assert_eq!(UnixTime::from_numeric_date(&value).map(|time| time.millis), millis, "{text}");
        }
    }

    #[test]
    fn arithmetic_stays_in_range() {
        let (early, late) = (UnixTime::from_secs(10), UnixTime::from_secs(12));
        assert_eq!(late.since(early), Duration::from_secs(2));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early + Duration::from_secs(2), late);
        assert_eq!((early + Duration::from_millis(1)).as_secs(), 11);
        assert_eq!(UnixTime::from_secs(u64::MAX) + Duration::MAX, UnixTime { millis: u64::MAX });
    }
}
