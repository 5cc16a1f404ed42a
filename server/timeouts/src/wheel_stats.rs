use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use crate::ring_stats::RingStats;

/// Statistics of the wheel, read by metrics and the admin API. The wheel thread writes them after every turn,
/// except the levels and rings, which it updates less often.
#[derive(Debug, Default)]
pub struct WheelStats {
    pub(crate) entries: AtomicUsize,
    /// Number of timers per level, which may include cancelled ones. Allocated when the wheel is created.
    occupancy: OnceLock<Box<[AtomicUsize]>>,
    pub(crate) rings: RingStats,
    /// Number of turns that started later than planned by more than the stall threshold.
    pub stalls: AtomicU64,
    /// Nanoseconds removed from server time because of stalls.
    pub stolen_nanos: AtomicU64,
    /// [`Clock::uptime`](crate::clock::Clock::uptime) at the last turn, in nanoseconds.
    pub(crate) last_turn_nanos: AtomicU64,
}

impl WheelStats {
    pub(crate) fn set_levels(&self, levels: usize) {
        self.occupancy.get_or_init(|| (0..levels).map(|_| AtomicUsize::new(0)).collect());
    }

    /// Returns the number of timers per level of the scheme, finest level first. May include cancelled
    /// timers.
    pub fn occupancy(&self) -> &[AtomicUsize] {
        self.occupancy.get().map_or(&[], |levels| levels)
    }
}
