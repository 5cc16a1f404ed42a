//! The wheel's unit of time.

use core::fmt;

/// A point in time, counted in ticks from an origin that the caller chooses.
///
/// How long one tick lasts is the caller's business as well: the wheel only compares ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The origin.
    pub const ZERO: Tick = Tick(0);

    /// The end of time: no tick comes after it.
    pub const MAX: Tick = Tick(u64::MAX);

    /// The tick `ticks` later, or [`Tick::MAX`] if time ends before.
    #[must_use]
    pub const fn saturating_add(self, ticks: u64) -> Tick {
        Tick(self.0.saturating_add(ticks))
    }

    /// How many ticks have passed since `earlier`; 0 if it lies ahead.
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
