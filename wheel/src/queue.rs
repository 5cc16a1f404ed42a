//! The common interface of all schemes.

use core::error::Error;
use core::fmt;
use core::ops::RangeInclusive;

use crate::{Expiry, SlotRing, Tick, TimerKey, WorkBudget, range};

/// Timers that each carry a `T` and are returned when they are due: the timer module of G. Varghese and A.
/// Lauck, *Hashed and Hierarchical Timing Wheels* (1997), section II.
///
/// The routines of that paper and of A. Lev-Libfeld, *Timer Lawn*, correspond to these methods:
///
/// | Varghese & Lauck | Timer Lawn | here |
/// |---|---|---|
/// | START_TIMER | StartTimer | [`schedule`](Self::schedule) |
/// | STOP_TIMER | DeleteTimer | [`cancel`](Self::cancel) |
/// | PER_TICK_BOOKKEEPING | PerTickBookkeeping | [`expire_next`](Self::expire_next), once for every expired timer |
/// | EXPIRY_PROCESSING | TimerExpired | the caller's handling of an [`Expired`](crate::Expired) |
///
/// The queue returns a [`TimerKey`] for each timer;
#[cfg_attr(feature = "std", doc = "[`Keyed`](crate::Keyed) uses ids chosen by the caller.")]
#[cfg_attr(not(feature = "std"), doc = "`Keyed`, with the feature `std`, uses ids chosen by the caller.")]
///
/// In every scheme, no timer expires early, all timers of one tick expire before any of the next, and a timer
/// scheduled for the current tick or earlier expires at the next tick.
pub trait TimerQueue<T> {
    /// Returns the current tick of the queue: the latest tick it was driven to, or the tick at which it
    /// stopped because the [`WorkBudget`] ran out.
    fn now(&self) -> Tick;

    /// Returns the number of scheduled timers.
    fn len(&self) -> usize;

    /// Returns `true` if no timer is scheduled.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns how many ticks ahead of [`now`](Self::now) a deadline may be, or `None` if there is no limit.
    fn horizon(&self) -> Option<u64> {
        None
    }

    /// Returns how many ticks late a timer may expire if it is scheduled `ahead` ticks ahead.
    fn precision(&self, _ahead: u64) -> u64 {
        0
    }

    /// Schedules a timer that is due at `deadline`. If the deadline is not later than [`now`](Self::now), the
    /// timer is due at the next tick.
    ///
    /// # Errors
    ///
    /// Returns [`BeyondHorizon`] with the value if the deadline is beyond the horizon of the scheme.
    ///
    /// # Panics
    ///
    /// Panics if the queue is full. The capacity is at least 2^30 timers.
    fn schedule(&mut self, deadline: Tick, value: T) -> Result<TimerKey, BeyondHorizon<T>>;

    /// Schedules a timer that may expire at any tick in `range`. The scheme chooses the cheapest tick.
    ///
    /// # Errors
    ///
    /// Returns [`BeyondHorizon`] with the value if all of the range is beyond the horizon of the scheme.
    ///
    /// # Panics
    ///
    /// Panics if the queue is full. The capacity is at least 2^30 timers.
    fn schedule_within(
        &mut self,
        range: RangeInclusive<Tick>,
        value: T,
    ) -> Result<TimerKey, BeyondHorizon<T>> {
        let deadline = range::choose(self.now(), &self.clamp_to_horizon(range));
        self.schedule(deadline, value)
    }

    /// Changes the deadline of a timer. Returns `false` if the key is stale.
    ///
    /// # Errors
    ///
    /// Returns [`BeyondHorizon`] if the deadline is beyond the horizon of the scheme. The timer keeps its
    /// deadline.
    fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> Result<bool, BeyondHorizon<()>>;

    /// Like [`reschedule`](Self::reschedule) with a deadline in `range`, but does nothing if the timer's
    /// deadline already lies in `range`.
    ///
    /// # Errors
    ///
    /// Returns [`BeyondHorizon`] if all of the range is beyond the horizon of the scheme. The timer keeps its
    /// deadline.
    #[inline]
    fn reschedule_within(
        &mut self,
        key: TimerKey,
        range: RangeInclusive<Tick>,
    ) -> Result<bool, BeyondHorizon<()>> {
        match self.deadline(key) {
            Some(deadline) if range::includes(&range, deadline) => Ok(true),
            _ => self.reschedule(key, range::choose(self.now(), &self.clamp_to_horizon(range))),
        }
    }

    /// Removes a timer before it expires and returns its value, or `None` if the key is stale.
    fn cancel(&mut self, key: TimerKey) -> Option<T>;

    /// Returns the requested deadline of a timer, even if the deadline had already passed when it was
    /// requested.
    fn deadline(&self, key: TimerKey) -> Option<Tick>;

    /// Returns a reference to the value of a timer.
    fn get(&self, key: TimerKey) -> Option<&T>;

    /// Drives the queue towards `now`. Returns the first timer that expires on the way, or why the drive
    /// ended without one.
    ///
    /// The queue may be changed freely between calls. Time does not go backwards: a `now` before the current
    /// tick is treated as [`now()`](Self::now).
    fn expire_next(&mut self, now: Tick, work: &mut WorkBudget) -> Expiry<T>;

    /// Returns the next tick at which [`expire_next`](Self::expire_next) has work to do, if that is no later
    /// than `at_most`. This may be earlier than the earliest expiry, but never later. `None` means that
    /// nothing happens up to and including `at_most`.
    fn next_wakeup(&self, at_most: Tick) -> Option<Tick>;

    /// Returns the number of parts whose timers [`occupancy`](Self::occupancy) counts separately.
    fn levels(&self) -> usize {
        1
    }

    /// Returns the number of timers in one part of the structure, for example a level of a hierarchy or the
    /// overflow list of a wheel. Some schemes include cancelled timers that they have not removed yet.
    fn occupancy(&self, _level: usize) -> usize {
        self.len()
    }

    /// Describes ring number `ring`, where 0 is the finest, and writes the number of timers in each of its
    /// slots to `counts`, counted as in [`occupancy`](Self::occupancy). If [timers are not
    /// counted](SlotRing::has_counts), `counts` is 1 for occupied slots. Returns `None` if there is no such
    /// ring. Schemes without slots have no rings, nor do schemes whose number of slots grows with the number
    /// of timers.
    ///
    /// The cost of this call does not depend on the number of timers.
    fn ring(&self, _ring: usize, _counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        None
    }

    /// Returns the part of `range` that lies within the horizon, or only the start of `range` if no part
    /// does.
    #[doc(hidden)]
    fn clamp_to_horizon(&self, range: RangeInclusive<Tick>) -> RangeInclusive<Tick> {
        let Some(horizon) = self.horizon() else { return range };
        let (start, end) = range.into_inner();
        start..=end.min(self.now().saturating_add(horizon)).max(start)
    }
}

/// Error returned when a deadline lies beyond the horizon of a scheme. `T` is the value that was to be
/// scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeyondHorizon<T> {
    /// Value that was to be scheduled.
    pub value: T,
    /// Last tick within the horizon.
    pub last: Tick,
}

impl<T> fmt::Display for BeyondHorizon<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the deadline is beyond tick {}, the last within the horizon", self.last)
    }
}

impl<T: fmt::Debug> Error for BeyondHorizon<T> {}
