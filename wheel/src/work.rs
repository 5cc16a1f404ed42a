//! How much one advance of the wheel may do.

/// A budget for [`TimerQueue::expire_next`](crate::TimerQueue::expire_next), for that of
/// [`Owners`](crate::Owners::expire_next) and [`StandingTimers`](crate::StandingTimers::expire_next), and for
/// [`TimingWheel::expire_batch`](crate::TimingWheel::expire_batch), so that a clump of timers cannot keep its thread from everything else.
///
/// One unit pays for one timer touched: one that expires, one that moves, one that was cancelled or disarmed and is come across, or, in the
/// schemes that have to, one that is looked at without being due. Empty slots cost nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    left: u64,
}

impl Work {
    /// A budget of `units` timers.
    #[must_use]
    pub const fn new(units: u64) -> Work {
        Work { left: units }
    }

    /// A budget that does not run out: `u64::MAX` timers.
    #[must_use]
    pub const fn unlimited() -> Work {
        Work::new(u64::MAX)
    }

    /// The units not spent yet.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Spends one unit, if there is one. For those who write a [`TimerQueue`](crate::TimerQueue).
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
