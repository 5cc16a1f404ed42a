use std::time::Duration;

use encke_wheel::{ReusableTimers, Tick};
use strum::{EnumCount, VariantArray};

use crate::clock::nanos;
use crate::tick_length::TickLength;

#[cfg(feature = "schemes")]
mod all;
#[cfg(not(feature = "schemes"))]
mod single;

#[cfg(feature = "schemes")]
pub use all::TimerScheme;
#[cfg(not(feature = "schemes"))]
pub use single::TimerScheme;

/// Operation on a timer structure of any scheme, compiled separately for each scheme.
pub(crate) trait TimersVisitor<T> {
    type Output;

    fn visit<W: ReusableTimers<T> + Send + 'static>(self, timers: W) -> Self::Output;
}

impl TimerScheme {
    /// All schemes in this build.
    pub const ALL: [Self; Self::COUNT] = *Self::VARIANTS.as_array().expect("COUNT counts VARIANTS");

    /// Maximum lateness of a timeout armed `ahead` of the current time, in addition to rounding up to a tick.
    #[must_use]
    pub fn lateness(self, tick: Duration, ahead: Duration) -> Duration {
        let tick = TickLength::of(tick);
        let ahead = tick.first_at_or_after(nanos(ahead)).0;
        let late = self.timers(Tick::ZERO, PrecisionQuery { ahead });
        Duration::from_nanos(tick.nanos(Tick(late)))
    }
}

/// Query for the maximum lateness, in ticks, of a timer armed `ahead` ticks in advance.
struct PrecisionQuery {
    ahead: u64,
}

impl TimersVisitor<()> for PrecisionQuery {
    type Output = u64;

    fn visit<W: ReusableTimers<()>>(self, timers: W) -> u64 {
        timers.precision(self.ahead)
    }
}
