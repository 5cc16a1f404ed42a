//! Results of driving a queue.

use crate::{Tick, TimerKey};

/// Result of [`TimerQueue::expire_next`](crate::TimerQueue::expire_next).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Expiry<T> {
    /// This timer is due. More may follow.
    Due(Expired<T>),
    /// The budget is exhausted and work remains. The next call continues where this one stopped.
    OutOfBudget,
    /// Every timer that was due has been returned.
    UpToDate,
}

/// A timer that has expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired<T> {
    /// Key of the timer. The key is now stale and only useful for comparison with a stored key.
    pub key: TimerKey,
    /// Requested deadline. The wheel is at this tick, or at a later tick if the deadline was not in the
    /// future.
    pub deadline: Tick,
    /// Value of the timer.
    pub value: T,
}
