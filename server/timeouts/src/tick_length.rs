use std::time::Duration;

use encke_core::Timestamp;
use encke_wheel::Tick;

use crate::clock::nanos;

/// Length of a tick in nanoseconds, with conversions between ticks and nanoseconds. Deadlines are rounded up,
/// so nothing fires early.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickLength(pub(crate) u64);

impl TickLength {
    pub(crate) fn of(tick: Duration) -> Self {
        Self(nanos(tick).max(1))
    }

    pub(crate) fn first_at_or_after(self, nanos: u64) -> Tick {
        Tick(nanos.div_ceil(self.0))
    }

    pub(crate) fn last_at_or_before(self, now: Timestamp) -> Tick {
        Tick(now.as_nanos() / self.0)
    }

    pub(crate) fn nanos(self, tick: Tick) -> u64 {
        tick.0.saturating_mul(self.0)
    }
}
