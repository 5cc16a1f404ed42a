use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::ring_stats::RingStats;

/// Written by the wheel thread after every turn, but for the levels and rings, which it looks at now and then; read by metrics and the admin API.
#[derive(Debug, Default)]
pub(crate) struct WheelStats {
    /// Timers in the wheel.
    pub(super) entries: AtomicUsize,
    /// Timers on each level, which may count some that were cancelled; set once there is a wheel.
    occupancy: OnceLock<Box<[AtomicUsize]>>,
    /// What the slots hold.
    pub(super) rings: RingStats,
    /// Turns that came later than planned by more than the threshold.
    pub(crate) stalls: AtomicU64,
    /// Nanoseconds taken out of the server's time by stalls.
    pub(crate) stolen_nanos: AtomicU64,
    /// [`Clock::uptime`](crate::clock::Clock::uptime) of the last turn, in nanoseconds.
    pub(crate) last_turn_nanos: AtomicU64,
}

impl WheelStats {
    pub(super) fn has_levels(&self, levels: usize) {
        self.occupancy.get_or_init(|| (0..levels).map(|_| AtomicUsize::new(0)).collect());
    }

    /// Timers on each of the scheme's levels, the finest first. It may count some that were cancelled.
    pub(crate) fn occupancy(&self) -> &[AtomicUsize] {
        self.occupancy.get().map_or(&[], |levels| levels)
    }
}
