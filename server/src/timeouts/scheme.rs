use std::time::Duration;

use encke_wheel::{StandingTimers, Tick};
use strum::{EnumCount, VariantArray};

use super::TickLength;
use crate::clock::nanos;

#[cfg(not(feature = "schemes"))]
mod alone;
#[cfg(feature = "schemes")]
mod family;

#[cfg(not(feature = "schemes"))]
pub use alone::Scheme;
#[cfg(feature = "schemes")]
pub use family::Scheme;

/// What is to be done with timers, whatever their scheme. It is compiled for each.
pub(super) trait UseTimers<T> {
    type Output;

    fn with<W: StandingTimers<T> + Send + 'static>(self, timers: W) -> Self::Output;
}

impl Scheme {
    /// All that this build has.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.as_array().expect("COUNT counts VARIANTS");

    /// How late a timeout may pass that is armed so far ahead, beside what rounding up to a tick takes.
    #[must_use]
    pub fn lateness(self, tick: Duration, ahead: Duration) -> Duration {
        let tick = TickLength::of(tick);
        let ahead = tick.first_at_or_after(nanos(ahead)).0;
        let late = self.timers(Tick::ZERO, Precision { ahead });
        Duration::from_nanos(tick.nanos(Tick(late)))
    }
}

/// How many ticks late a timer may come out that is armed so many ahead.
struct Precision {
    ahead: u64,
}

impl UseTimers<()> for Precision {
    type Output = u64;

    fn with<W: StandingTimers<()>>(self, timers: W) -> u64 {
        timers.precision(self.ahead)
    }
}
