//! Timers that stay.

use core::ops::RangeInclusive;

use crate::{BeyondHorizon, Expire, Ring, Tick, TimerKey, Work};

/// Timers that are registered once, and then armed, put off and disarmed as often as needed, until they are unregistered.
///
/// This is what most timeouts are: that of a session or a request, which is set again and again while the session lives. The timer keeps
/// its memory and its key all the time; when it expires, its value is lent to the caller, and stays.
///
/// [`Owners<T>`](crate::Owners) is made for it;
#[cfg_attr(
    feature = "schemes",
    doc = "[`Standing`](crate::schemes::Standing) does the same with any [`TimerQueue`](crate::TimerQueue)."
)]
#[cfg_attr(
    not(feature = "schemes"),
    doc = "`Standing` does the same with any [`TimerQueue`](crate::TimerQueue), with the feature `schemes`."
)]
///
/// What [`TimerQueue`](crate::TimerQueue) says of order, deadlines and budgets holds here as well.
pub trait StandingTimers<T> {
    /// The tick that the timers stand at: see [`TimerQueue::now`](crate::TimerQueue::now).
    fn now(&self) -> Tick;

    /// How many timers are registered, armed or not.
    fn len(&self) -> usize;

    /// Whether no timer is registered.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many ticks ahead of [`now`](Self::now) a deadline may lie; `None` if it may lie anywhere.
    fn horizon(&self) -> Option<u64> {
        None
    }

    /// How many ticks after its deadline a timer may expire, if it is armed `ahead` ticks ahead.
    fn precision(&self, _ahead: u64) -> u64 {
        0
    }

    /// Registers a timer, which is not armed.
    ///
    /// # Panics
    ///
    /// If there are as many timers as there may be: 2^30 at least.
    fn register(&mut self, value: T) -> TimerKey;

    /// Takes a timer out for good. Returns `None` if the key is stale.
    fn unregister(&mut self, key: TimerKey) -> Option<T>;

    /// The value of a timer.
    fn get(&self, key: TimerKey) -> Option<&T>;

    /// Arms a timer, or gives it another deadline. One that is not ahead of [`now`](Self::now) is due at the next tick. Returns `false`
    /// if the key is stale.
    ///
    /// # Errors
    ///
    /// [`BeyondHorizon`] when the deadline is further ahead than the scheme reaches. The timer stays as it was.
    fn arm(&mut self, key: TimerKey, deadline: Tick) -> Result<bool, BeyondHorizon<()>>;

    /// Like [`arm`](Self::arm) with a deadline anywhere in `range`: the scheme takes what is cheapest. Does nothing if the timer is
    /// armed with one of these.
    ///
    /// # Errors
    ///
    /// [`BeyondHorizon`] when all of the range is further ahead than the scheme reaches. The timer stays as it was.
    fn arm_within(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> Result<bool, BeyondHorizon<()>>;

    /// Disarms a timer. Returns whether it was armed.
    fn disarm(&mut self, key: TimerKey) -> bool;

    /// The deadline that a timer was armed with, even if it lies in the past. `None` if it is not armed, or the key is stale.
    fn deadline(&self, key: TimerKey) -> Option<Tick>;

    /// Drives the timers towards `now`, and lends the value of the first that expires on the way, or says why none does. The timer is
    /// not armed any more. See [`TimerQueue::expire_next`](crate::TimerQueue::expire_next).
    fn expire_next(&mut self, now: Tick, work: &mut Work) -> Expire<&mut T>;

    /// The next tick at which [`expire_next`](Self::expire_next) has something to do: see
    /// [`TimerQueue::next_wakeup`](crate::TimerQueue::next_wakeup).
    fn next_wakeup(&self, at_most: Tick) -> Option<Tick>;

    /// How many parts [`occupancy`](Self::occupancy) tells apart.
    fn levels(&self) -> usize {
        1
    }

    /// How many timers a part holds: see [`TimerQueue::occupancy`](crate::TimerQueue::occupancy).
    fn occupancy(&self, level: usize) -> usize;

    /// What a ring of slots looks like, and what each of them holds: see [`TimerQueue::ring`](crate::TimerQueue::ring).
    fn ring(&self, _ring: usize, _held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        None
    }
}
