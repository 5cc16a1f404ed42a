//! Budgets for advancing a wheel.

/// Limit on the work of [`TimerQueue::expire_next`](crate::TimerQueue::expire_next), of the same method of
/// [`Owners`](crate::Owners::expire_next) and [`ReusableTimers`](crate::ReusableTimers::expire_next), and of
/// [`TimingWheel::expire_batch`](crate::TimingWheel::expire_batch), so that a burst of timers cannot
/// monopolise the calling thread.
///
/// One unit pays for touching one timer: a timer that expires, a timer that moves, the leftover entry of a
/// cancelled or disarmed timer, or, in schemes that have to scan, a timer that is examined without being due.
/// Empty slots cost nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkBudget {
    left: u64,
}

impl WorkBudget {
    /// Creates a budget of `units` timers.
    #[must_use]
    pub const fn new(units: u64) -> WorkBudget {
        WorkBudget { left: units }
    }

    /// Creates a budget of `u64::MAX` timers, which is practically unlimited.
    #[must_use]
    pub const fn unlimited() -> WorkBudget {
        WorkBudget::new(u64::MAX)
    }

    /// Returns the number of unspent units.
    #[must_use]
    pub const fn remaining(&self) -> u64 {
        self.left
    }

    /// Spends one unit. Returns `false` if none is left. Used by implementations of
    /// [`TimerQueue`](crate::TimerQueue).
    pub const fn spend(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}
