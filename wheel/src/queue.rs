//! What every scheme can do.

use core::error::Error;
use core::fmt;
use core::ops::RangeInclusive;

use crate::{Expire, Ring, Tick, TimerKey, Work, range};

/// Timers that each carry a `T` and come out when they are due: the timer module of G. Varghese and A. Lauck, *Hashed and
/// Hierarchical Timing Wheels* (1997), section II.
///
/// Their four routines, and those of A. Lev-Libfeld, *Timer Lawn*, under their names here:
///
/// | Varghese & Lauck | Timer Lawn | here |
/// |---|---|---|
/// | START_TIMER | StartTimer | [`schedule`](Self::schedule) |
/// | STOP_TIMER | DeleteTimer | [`cancel`](Self::cancel) |
/// | PER_TICK_BOOKKEEPING | PerTickBookkeeping | [`expire_next`](Self::expire_next), once for every timer that comes out |
/// | EXPIRY_PROCESSING | TimerExpired | what the caller does with an [`Expired`](crate::Expired) |
///
/// A timer is named by the [`TimerKey`] that the queue gives out;
#[cfg_attr(feature = "std", doc = "[`Keyed`](crate::Keyed) takes names of the caller's own.")]
#[cfg_attr(not(feature = "std"), doc = "`Keyed` takes names of the caller's own, with the feature `std`.")]
///
/// Whatever the scheme: no timer comes out early, all of one tick come before any of the next, and what is scheduled for
/// now or earlier comes out at the next tick.
pub trait TimerQueue<T> {
    /// The tick that the queue stands at: the latest it was driven to or, when [`Work`] ran out on the way there, the one at
    /// which it stopped.
    fn now(&self) -> Tick;

    /// How many timers are scheduled.
    fn len(&self) -> usize;

    /// Whether no timer is scheduled.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many ticks ahead of [`now`](Self::now) a deadline may lie; `None` if it may lie anywhere.
    fn horizon(&self) -> Option<u64> {
        None
    }

    /// How many ticks after its deadline a timer may come out, if it is scheduled `ahead` ticks ahead.
    fn precision(&self, _ahead: u64) -> u64 {
        0
    }

    /// Schedules a timer that is due at `deadline`. One that is not ahead of [`now`](Self::now) is due at the next tick.
    ///
    /// # Errors
    ///
    /// [`BeyondHorizon`], with the value, when the deadline is further ahead than the scheme reaches.
    ///
    /// # Panics
    ///
    /// If the queue holds as many timers as it can: 2^30 at least.
    fn schedule(&mut self, deadline: Tick, value: T) -> Result<TimerKey, BeyondHorizon<T>>;

    /// Schedules a timer that may come out at any tick in `range`: the scheme takes what is cheapest.
    ///
    /// # Errors
    ///
    /// [`BeyondHorizon`], with the value, when all of the range is further ahead than the scheme reaches.
    ///
    /// # Panics
    ///
    /// If the queue holds as many timers as it can: 2^30 at least.
    fn schedule_within(
        &mut self,
        range: RangeInclusive<Tick>,
        value: T,
    ) -> Result<TimerKey, BeyondHorizon<T>> {
        let deadline = range::choose(self.now(), &self.within_reach(range));
        self.schedule(deadline, value)
    }

    /// Gives a timer another deadline. Returns `false` if the key is stale.
    ///
    /// # Errors
    ///
    /// [`BeyondHorizon`] when the deadline is further ahead than the scheme reaches. The timer stays as it was.
    fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> Result<bool, BeyondHorizon<()>>;

    /// Like [`reschedule`](Self::reschedule) with a deadline in `range`, but does nothing if the present one is.
    ///
    /// # Errors
    ///
    /// [`BeyondHorizon`] when all of the range is further ahead than the scheme reaches. The timer stays as it was.
    #[inline]
    fn reschedule_within(
        &mut self,
        key: TimerKey,
        range: RangeInclusive<Tick>,
    ) -> Result<bool, BeyondHorizon<()>> {
        match self.deadline(key) {
            Some(deadline) if range::includes(&range, deadline) => Ok(true),
            _ => self.reschedule(key, range::choose(self.now(), &self.within_reach(range))),
        }
    }

    /// Takes a timer out before it expires. Returns `None` if the key is stale.
    fn cancel(&mut self, key: TimerKey) -> Option<T>;

    /// The deadline that a timer was scheduled for, even if it lies in the past.
    fn deadline(&self, key: TimerKey) -> Option<Tick>;

    /// The value of a timer.
    fn get(&self, key: TimerKey) -> Option<&T>;

    /// Drives the queue towards `now` and returns the first timer that comes out on the way, or why none does.
    ///
    /// Between the calls the queue may be changed at will. A `now` before that of an earlier call counts as
    /// [`now()`](Self::now): time does not go backwards.
    fn expire_next(&mut self, now: Tick, work: &mut Work) -> Expire<T>;

    /// The next tick at which [`expire_next`](Self::expire_next) has something to do, if that is no later than `at_most`:
    /// maybe earlier than the earliest expiry, never later. `None`: nothing happens up to and including `at_most`.
    fn next_wakeup(&self, at_most: Tick) -> Option<Tick>;

    /// How many parts [`occupancy`](Self::occupancy) tells apart.
    fn levels(&self) -> usize {
        1
    }

    /// How many timers a part holds: a level of a hierarchy, the overflow list of a wheel. Some schemes count what was cancelled
    /// until they come across it.
    fn occupancy(&self, _level: usize) -> usize {
        self.len()
    }

    /// What ring number `ring` looks like, the finest being 0, and in `held` how many timers each of its slots holds, counted as
    /// [`occupancy`](Self::occupancy) does; 1 where there are some, if they are [not counted](Ring::counted). `None` if there are no more
    /// rings: no ring at all, if the scheme has no slots, or the more of them, the more timers there are.
    ///
    /// It takes as long for a million timers as for a hundred.
    fn ring(&self, _ring: usize, _held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        None
    }

    /// What of a range can be scheduled; its start, if nothing can.
    #[doc(hidden)]
    fn within_reach(&self, range: RangeInclusive<Tick>) -> RangeInclusive<Tick> {
        let Some(horizon) = self.horizon() else { return range };
        let (start, end) = range.into_inner();
        start..=end.min(self.now().saturating_add(horizon)).max(start)
    }
}

/// A deadline lies further ahead than a scheme reaches. `T` is what was to be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeyondHorizon<T> {
    /// What was to be scheduled.
    pub value: T,
    /// The last tick that could have been had.
    pub last: Tick,
}

impl<T> fmt::Display for BeyondHorizon<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the scheme reaches no further than tick {}", self.last)
    }
}

impl<T: fmt::Debug> Error for BeyondHorizon<T> {}
