//! Reusable timers.

use core::ops::RangeInclusive;

use crate::{BeyondHorizon, Expiry, SlotRing, Tick, TimerKey, WorkBudget};

/// Timers that are registered once, then armed, postponed and disarmed any number of times until they are
/// unregistered.
///
/// Most timeouts are of this kind: the timeout of a session or request is set again and again during the life
/// of the session. The timer keeps its memory and its key throughout. When it expires, the caller receives a
/// reference to its value, which stays in place.
///
/// [`Owners<T>`](crate::Owners) is designed for this;
#[cfg_attr(
    feature = "schemes",
    doc = "[`Reusable`](crate::schemes::Reusable) provides it on top of any [`TimerQueue`](crate::TimerQueue)."
)]
#[cfg_attr(
    not(feature = "schemes"),
    doc = "`Reusable`, with the feature `schemes`, provides it on top of any [`TimerQueue`](crate::TimerQueue)."
)]
/// The guarantees of [`TimerQueue`](crate::TimerQueue) about order, deadlines and budgets apply to reusable
/// timers too.
pub trait ReusableTimers<T> {
    /// Returns the current tick: see [`TimerQueue::now`](crate::TimerQueue::now).
    fn now(&self) -> Tick;

    /// Returns the number of registered timers, armed or not.
    fn len(&self) -> usize;

    /// Returns `true` if no timer is registered.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many ticks ahead of [`now`](Self::now) a deadline may be, or `None` if there is no limit.
    fn horizon(&self) -> Option<u64> {
        None
    }

    /// Returns how many ticks late a timer may expire if it is armed `ahead` ticks ahead.
    fn precision(&self, _ahead: u64) -> u64 {
        0
    }

    /// Registers a timer without arming it.
    ///
    /// # Panics
    ///
    /// Panics if the maximum number of timers is reached. It is at least 2^30.
    fn register(&mut self, value: T) -> TimerKey;

    /// Removes a timer and returns its value, or `None` if the key is stale.
    fn unregister(&mut self, key: TimerKey) -> Option<T>;

    /// Returns a reference to the value of a timer.
    fn get(&self, key: TimerKey) -> Option<&T>;

    /// Arms a timer, or changes its deadline. If the deadline is not later than [`now`](Self::now), the timer
    /// is due at the next tick. Returns `false` if the key is stale.
    ///
    /// # Errors
    ///
    /// Returns [`BeyondHorizon`] if the deadline is beyond the horizon of the scheme. The timer is not
    /// changed.
    fn arm(&mut self, key: TimerKey, deadline: Tick) -> Result<bool, BeyondHorizon<()>>;

    /// Like [`arm`](Self::arm) with a deadline anywhere in `range`. The scheme chooses the cheapest tick.
    /// Does nothing if the timer is already armed with a deadline in `range`.
    ///
    /// # Errors
    ///
    /// Returns [`BeyondHorizon`] if all of the range is beyond the horizon of the scheme. The timer is not
    /// changed.
    fn arm_within(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> Result<bool, BeyondHorizon<()>>;

    /// Disarms a timer. Returns whether it was armed.
    fn disarm(&mut self, key: TimerKey) -> bool;

    /// Returns the deadline with which a timer was armed, even if the deadline had already passed then, or
    /// `None` if the timer is not armed or the key is stale.
    fn deadline(&self, key: TimerKey) -> Option<Tick>;

    /// Drives the timers towards `now`. Returns the first timer that expires on the way, with a reference to
    /// its value, or why the drive ended without one. The expired timer is no longer armed. See
    /// [`TimerQueue::expire_next`](crate::TimerQueue::expire_next).
    fn expire_next(&mut self, now: Tick, work: &mut WorkBudget) -> Expiry<&mut T>;

    /// Returns the next tick at which [`expire_next`](Self::expire_next) has work to do: see
    /// [`TimerQueue::next_wakeup`](crate::TimerQueue::next_wakeup).
    fn next_wakeup(&self, at_most: Tick) -> Option<Tick>;

    /// Returns the number of parts whose timers [`occupancy`](Self::occupancy) counts separately.
    fn levels(&self) -> usize {
        1
    }

    /// Returns the number of timers in one part of the structure: see
    /// [`TimerQueue::occupancy`](crate::TimerQueue::occupancy).
    fn occupancy(&self, level: usize) -> usize;

    /// Describes a ring of slots and the contents of each slot: see
    /// [`TimerQueue::ring`](crate::TimerQueue::ring).
    fn ring(&self, _ring: usize, _counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        None
    }
}
