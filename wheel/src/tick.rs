//! The unit of time.

use core::fmt;

/// A point in time, counted in ticks from an origin chosen by the caller.
///
/// The caller also chooses the length of a tick. The wheel only compares ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The origin.
    pub const ZERO: Tick = Tick(0);

    /// The last tick.
    pub const MAX: Tick = Tick(u64::MAX);

    /// Returns the tick `ticks` later, saturating at [`Tick::MAX`].
    #[must_use]
    pub const fn saturating_add(self, ticks: u64) -> Tick {
        Tick(self.0.saturating_add(ticks))
    }

    /// Returns the number of ticks since `earlier`, or 0 if `earlier` is later than `self`.
    #[must_use]
    pub const fn saturating_since(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
