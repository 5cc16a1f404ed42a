use std::time::Duration;

/// Wall-clock time in milliseconds since 1970. Used only for tokens: the server's timeouts use
/// [`Timestamp`](encke_core::Timestamp).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnixTime {
    millis: u64,
}

impl UnixTime {
    /// Creates a time from the seconds since 1970.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self { millis: secs.saturating_mul(1000) }
    }

    /// Creates a time from the duration since 1970.
    #[must_use]
    pub fn since_epoch(duration: Duration) -> Self {
        Self { millis: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX) }
    }

    /// Seconds since 1970, rounded up, so that nothing expires early.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.millis.div_ceil(1000)
    }

    /// Seconds since 1970, with milliseconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        Duration::from_millis(self.millis).as_secs_f64()
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.millis
    }

    /// Time elapsed since `earlier`, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.millis.saturating_sub(earlier.millis))
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
    fn arithmetic_stays_in_range() {
        let (early, late) = (UnixTime::from_secs(10), UnixTime::from_secs(12));
        assert_eq!(late.since(early), Duration::from_secs(2));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early + Duration::from_secs(2), late);
        assert_eq!((early + Duration::from_millis(1)).as_secs(), 11);
        assert_eq!(UnixTime::from_secs(u64::MAX) + Duration::MAX, UnixTime { millis: u64::MAX });
    }
}
