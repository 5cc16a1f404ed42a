//! The wheel itself.

#[cfg(test)]
pub(crate) mod check;
mod drive;
mod engine;
mod line;
mod memory;
mod owner;
mod owners;
mod place;
mod queue;
mod slots;
mod standing;
mod state;

use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

use crate::{Expire, Expired, Ring, Tick, TimerKey, Work};
use engine::Wheel;
use memory::Apart;
pub use owner::{Due, Lent, OwnerMut};
pub use owners::Owners;
pub use place::LEVELS;
use standing::IT;

/// Timers that each carry a `T`, ordered by deadline. The [crate documentation](crate) tells how to use it.
///
/// Each is for once: it comes out with its value, and its key is stale then. [`Owners`] has timers that stay, which this is made of.
///
/// The wheel holds at most 2^30 timers at a time and panics when asked for one more. It takes 21 to 23 bytes a timer and the value,
/// in pages of 256 timers, of which the lowest is filled first, and 136 KiB; empty pages are given back.
pub struct TimingWheel<T> {
    timers: Wheel<T, 1, Apart>,
}

impl<T> TimingWheel<T> {
    /// An empty wheel that stands at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        TimingWheel { timers: Wheel::new(now) }
    }

    /// The tick the wheel stands at: the latest it was driven to or, when [`Work`] ran out on the way there,
    /// the one at which it stopped.
    #[must_use]
    #[inline(always)]
    pub fn now(&self) -> Tick {
        self.timers.now()
    }

    /// How many timers are scheduled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether no timer is scheduled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many timers each level holds, the nearest level first. Some that were cancelled or moved are counted still. Looks at all slots
    /// that hold something.
    #[must_use]
    pub fn occupancy(&self) -> [usize; LEVELS] {
        core::array::from_fn(|level| self.timers.slots.len(level))
    }

    /// What a level looks like as a ring of slots, and what each of them holds: see [`TimerQueue::ring`](crate::TimerQueue::ring).
    pub fn ring(&self, level: usize, held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        self.timers.slots.ring(level, held)
    }

    /// Schedules a timer that is due at `deadline`, in constant time.
    ///
    /// A deadline that is not ahead of [`now`](Self::now) is due at the next tick. At [`Tick::MAX`] there is
    /// no next tick: what is scheduled then never expires, and stays until it is cancelled.
    ///
    /// # Panics
    ///
    /// If the wheel holds 2^30 timers already.
    pub fn schedule(&mut self, deadline: Tick, value: T) -> TimerKey {
        let mut timer = self.timers.insert(value);
        timer.arm(IT, deadline);
        timer.key()
    }

    /// Schedules a timer that may come out at any tick in `range`, so that the wheel can choose the cheapest: see
    /// [`OwnerMut::arm_within`].
    ///
    /// # Panics
    ///
    /// If the wheel holds 2^30 timers already.
    pub fn schedule_within(&mut self, range: RangeInclusive<Tick>, value: T) -> TimerKey {
        self.schedule(crate::range::choose(self.now(), &range), value)
    }

    /// Gives a timer another deadline, in constant time. Returns `false` if the key is stale.
    ///
    /// A timer that is due but has not come out yet is postponed like any other.
    ///
    /// One that is put off stays where it is until the wheel comes to it, and moves then. So putting off costs next to nothing,
    /// however often; and [`next_wakeup`](Self::next_wakeup) may name, once, the deadline that it had before.
    pub fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> bool {
        let timer = self.timers.get_mut(key);
        timer.map(|mut timer| timer.arm(IT, deadline)).is_some()
    }

    /// Like [`reschedule`](Self::reschedule) with a deadline chosen as in
    /// [`schedule_within`](Self::schedule_within), but does nothing if the present deadline lies in `range`.
    /// Returns `false` if the key is stale.
    pub fn reschedule_within(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> bool {
        let timer = self.timers.get_mut(key);
        timer.map(|mut timer| timer.arm_within(IT, range)).is_some()
    }

    /// Takes a timer out before it expires, in constant time. Returns `None` if the key is stale.
    ///
    /// [`next_wakeup`](Self::next_wakeup) may name, once, the deadline that it had.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        self.timers.remove(key)
    }

    /// The deadline that a timer was scheduled for, even if it lies in the past.
    #[must_use]
    pub fn deadline(&self, key: TimerKey) -> Option<Tick> {
        self.timers.deadline(key, IT)
    }

    /// The value of a timer.
    #[must_use]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.timers.get(key)
    }

    /// Drives the wheel towards `now` and returns the first timer that comes out on the way, or why none
    /// does.
    ///
    /// Called until it says [`Expire::UpToDate`], it returns every timer with a deadline up to `now`, all of
    /// one tick before any of the next; within a tick the order is arbitrary. Between the calls the wheel may
    /// be changed at will. A `now` before that of an earlier call counts as [`now()`](Self::now): time does
    /// not go backwards.
    ///
    /// Stretches without timers are skipped, not stepped through, however long.
    pub fn expire_next(&mut self, now: Tick, work: &mut Work) -> Expire<T> {
        self.timers.drive(now, work)
    }

    /// Like [`expire_next`](Self::expire_next), for many timers at a time, where nothing has to be changed between one and the next: they
    /// are appended to `into`, in order. Returns whether they are all that come out up to `now`. If they are not, there may be more: call
    /// it again, with more work if none is left.
    ///
    /// It takes as many as there is work for, but no more once it has 1,024, so that they are still in the processor's cache when the
    /// caller comes to them. Driven over a whole *turn*, which is 256 ticks from a multiple of 256 on, it takes all that are due in it
    /// at once, if there is work for all of it: most timers then come out without having been moved, for half of what it takes
    /// one by one. So this is the place for [`Work::unlimited`], unless timers may be too many to be taken in one go.
    ///
    /// A timer that was scheduled too late comes with those of the tick after that, as ever: its deadline is before theirs.
    ///
    /// ```
    /// use encke_wheel::{Tick, TimingWheel, Work};
    ///
    /// let mut wheel = TimingWheel::new(Tick(0));
    /// for number in 1..=3000 {
    ///     wheel.schedule(Tick(number), number);
    /// }
    ///
    /// let mut batch = Vec::new();
    /// let mut sum = 0;
    /// loop {
    ///     let is_all = wheel.expire_batch(Tick(2000), &mut Work::unlimited(), &mut batch);
    ///     sum += batch.drain(..).map(|expired| expired.value).sum::<u64>();
    ///     if is_all {
    ///         break;
    ///     }
    /// }
    /// assert_eq!((sum, wheel.len()), (2000 * 2001 / 2, 1000));
    /// ```
    pub fn expire_batch(&mut self, now: Tick, work: &mut Work, into: &mut Vec<Expired<T>>) -> bool {
        self.timers.expire_batch(now, work, into)
    }

    /// The next tick at which [`expire_next`](Self::expire_next) has something to do, if that is no later than `at_most`: see
    /// [`Owners::next_wakeup`]. What was cancelled may be named even when no timer is left.
    #[must_use]
    pub fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        self.timers.next_wakeup(at_most)
    }
}

impl<T> fmt::Debug for TimingWheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimingWheel")
            .field("now", &self.now())
            .field("len", &self.len())
            .field("occupancy", &self.occupancy())
            .finish_non_exhaustive()
    }
}
