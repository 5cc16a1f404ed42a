//! What driving the wheel yields.

use crate::{Tick, TimerKey};

/// What [`TimerQueue::expire_next`](crate::TimerQueue::expire_next) came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Expire<T> {
    /// This timer is due. There may be more.
    Due(Expired<T>),
    /// The budget is spent, and there is more to do. Nothing is lost: the next call goes on from here.
    OutOfWork,
    /// Every timer that was due has come out.
    UpToDate,
}

/// A timer that came out of the wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired<T> {
    /// The key it had. It is stale by now, and good for comparing with a key that was kept.
    pub key: TimerKey,
    /// When it was due, as it was scheduled. The wheel stands at this tick, or later if it was scheduled
    /// late.
    pub deadline: Tick,
    /// What it carried.
    pub value: T,
}
