use std::fmt;
use std::num::NonZeroU64;
use std::ops::Add;
use std::time::Duration;

/// A point in time on the server's own clock: nanoseconds since an origin before the first reading.
///
/// It is never zero, so `Option<Timestamp>` takes only eight bytes; every session stores several.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(NonZeroU64);

impl Timestamp {
    /// The latest representable timestamp, some 584 years after the origin.
    pub const MAX: Self = Self(NonZeroU64::MAX);

    /// Creates a timestamp from nanoseconds since the origin. Zero is rounded up to one.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        match NonZeroU64::new(nanos) {
            Some(nanos) => Self(nanos),
            None => Self(NonZeroU64::MIN),
        }
    }

    /// Returns nanoseconds since the origin.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get()
    }

    /// Returns the timestamp `duration` earlier; `None` if that is before the origin.
    #[must_use]
    pub fn before(self, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.get().checked_sub(nanos).and_then(NonZeroU64::new).map(Self)
    }

    /// Returns the time elapsed since `earlier`; zero if `earlier` is later than `self`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }
}

/// Saturates at [`Timestamp::MAX`].
impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Duration::from_nanos(self.as_nanos()).fmt(f)
    }
}
