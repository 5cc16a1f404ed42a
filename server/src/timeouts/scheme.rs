use std::time::Duration;

use encke_wheel::{Tick, TimerQueue};
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

/// What is to be done with a queue of timers, whatever its scheme. It is compiled for each.
pub(super) trait UseQueue<T> {
    type Output;

    fn with<Q: TimerQueue<T> + Send + 'static>(self, queue: Q) -> Self::Output;
}

impl Scheme {
    /// All that this build has.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.as_array().expect("COUNT counts VARIANTS");

    /// How late a timeout may pass that is armed so far ahead, beside what rounding up to a tick takes.
    #[must_use]
    pub fn lateness(self, tick: Duration, ahead: Duration) -> Duration {
        let tick = TickLength::of(tick);
        let ahead = tick.first_at_or_after(nanos(ahead)).0;
        let late = self.queue(Tick::ZERO, Precision { ahead });
        Duration::from_nanos(tick.nanos(Tick(late)))
    }
}

/// How many ticks late a timer may come out that is scheduled so many ahead.
struct Precision {
    ahead: u64,
}

impl UseQueue<()> for Precision {
    type Output = u64;

    fn with<Q: TimerQueue<()>>(self, queue: Q) -> u64 {
        queue.precision(self.ahead)
    }
}
