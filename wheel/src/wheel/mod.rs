#[cfg(test)]
pub(crate) mod check;
mod drive;
mod line;
mod memory;
mod owner;
mod owners;
mod queue;
mod reusable;
mod slot_id;
mod slots;
mod timer_state;
mod wheel_core;

use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

use crate::{Expired, Expiry, SlotRing, Tick, TimerKey, WorkBudget};
use memory::Separate;
pub use owner::{DueTimer, OwnerExpiry, OwnerMut};
pub use owners::Owners;
use reusable::ONLY_TIMER;
pub use slot_id::LEVELS;
use wheel_core::WheelCore;

/// One-shot timers that each carry a `T`, ordered by deadline. See the [crate documentation](crate) for an
/// example.
///
/// When a timer expires, its value is returned and its key becomes stale. For timers that are reused, see
/// [`Owners`], on which this type is built.
///
/// The wheel holds at most 2^30 timers at a time. A timer takes 21 to 23 bytes plus its value, in pages of
/// 256 timers; the slots take 136 KiB. The lowest page with free space is filled first, and empty pages are
/// freed.
pub struct TimingWheel<T> {
    timers: WheelCore<T, 1, Separate>,
}

impl<T> TimingWheel<T> {
    /// Creates an empty wheel at tick `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        TimingWheel { timers: WheelCore::new(now) }
    }

    /// Returns the current tick of the wheel: the latest tick it was driven to, or the tick at which it
    /// stopped because the [`WorkBudget`] ran out.
    #[must_use]
    #[inline(always)]
    pub fn now(&self) -> Tick {
        self.timers.now()
    }

    /// Returns the number of scheduled timers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Returns `true` if no timer is scheduled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of timers on each level, starting with the lowest. Includes entries of cancelled
    /// and moved timers that have not been removed yet. Visits all occupied slots.
    #[must_use]
    pub fn occupancy(&self) -> [usize; LEVELS] {
        core::array::from_fn(|level| self.timers.slots.len(level))
    }

    /// Describes a level as a ring of slots with the contents of each slot: see
    /// [`TimerQueue::ring`](crate::TimerQueue::ring).
    pub fn ring(&self, level: usize, counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        self.timers.slots.ring(level, counts)
    }

    /// Schedules a timer that is due at `deadline`, in constant time.
    ///
    /// If the deadline is not later than [`now`](Self::now), the timer is due at the next tick. At
    /// [`Tick::MAX`] there is no next tick: a timer scheduled at that tick never expires, and stays until it
    /// is cancelled.
    ///
    /// # Panics
    ///
    /// Panics if the wheel already holds 2^30 timers.
    pub fn schedule(&mut self, deadline: Tick, value: T) -> TimerKey {
        let mut timer = self.timers.insert(value);
        timer.arm(ONLY_TIMER, deadline);
        timer.key()
    }

    /// Schedules a timer that may expire at any tick in `range`. The wheel chooses the cheapest tick: see
    /// [`OwnerMut::arm_within`].
    ///
    /// # Panics
    ///
    /// Panics if the wheel already holds 2^30 timers.
    pub fn schedule_within(&mut self, range: RangeInclusive<Tick>, value: T) -> TimerKey {
        self.schedule(crate::range::choose(self.now(), &range), value)
    }

    /// Changes the deadline of a timer, in constant time. Returns `false` if the key is stale.
    ///
    /// A timer that is due but has not been returned yet can still be postponed.
    ///
    /// A postponed timer stays in its slot and only moves when the wheel reaches that slot. Postponing is
    /// therefore almost free, but [`next_wakeup`](Self::next_wakeup) may return the previous deadline once.
    pub fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> bool {
        let timer = self.timers.get_mut(key);
        timer.map(|mut timer| timer.arm(ONLY_TIMER, deadline)).is_some()
    }

    /// Like [`reschedule`](Self::reschedule) with a deadline chosen as in
    /// [`schedule_within`](Self::schedule_within), but does nothing if the timer's deadline already lies in
    /// `range`. Returns `false` if the key is stale.
    pub fn reschedule_within(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> bool {
        let timer = self.timers.get_mut(key);
        timer.map(|mut timer| timer.arm_within(ONLY_TIMER, range)).is_some()
    }

    /// Removes a timer before it expires, in constant time, and returns its value, or `None` if the key is
    /// stale.
    ///
    /// [`next_wakeup`](Self::next_wakeup) may return the deadline of the cancelled timer once.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        self.timers.remove(key)
    }

    /// Returns the requested deadline of a timer, even if the deadline had already passed when it was
    /// requested.
    #[must_use]
    pub fn deadline(&self, key: TimerKey) -> Option<Tick> {
        self.timers.deadline(key, ONLY_TIMER)
    }

    /// Returns a reference to the value of a timer.
    #[must_use]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.timers.get(key)
    }

    /// Drives the wheel towards `now`. Returns the first timer that expires on the way, or why the drive
    /// ended without one.
    ///
    /// Called until it returns [`Expiry::UpToDate`], it returns every timer with a deadline up to `now`, and
    /// all timers of one tick before any of the next. Within a tick the order is unspecified. The wheel may
    /// be changed freely between calls. Time does not go backwards: a `now` before the current tick is
    /// treated as [`now()`](Self::now).
    ///
    /// Stretches without timers are skipped, regardless of their length.
    pub fn expire_next(&mut self, now: Tick, work: &mut WorkBudget) -> Expiry<T> {
        self.timers.drive(now, work)
    }

    /// Like [`expire_next`](Self::expire_next), but takes many timers at a time, for callers that do not
    /// change the wheel between timers. Appends the timers to `into`, in order. Returns `true` if no more
    /// timers expire up to `now`. If it returns `false`, call it again, with a new budget if the budget is
    /// spent.
    ///
    /// A call stops when the budget is spent, or once it has taken 1,024 timers, so that they are still in
    /// the processor's cache when the caller handles them. When the wheel is driven over a whole *revolution*
    /// of the lowest level, which is 256 ticks starting at a multiple of 256, it takes all timers of the
    /// revolution together, provided that the budget covers them all. Most of these timers then expire
    /// without having cascaded, at half the cost of `expire_next`. Use [`WorkBudget::unlimited`] with this
    /// method, unless there may be too many timers to be taken without a break.
    ///
    /// A timer that was scheduled with a past deadline is returned together with the timers of the tick at
    /// which it became due, so its deadline is earlier than theirs.
    ///
    /// ```
    /// use encke_wheel::{Tick, TimingWheel, WorkBudget};
    ///
    /// let mut wheel = TimingWheel::new(Tick(0));
    /// for number in 1..=3000 {
    ///     wheel.schedule(Tick(number), number);
    /// }
    ///
    /// let mut batch = Vec::new();
    /// let mut sum = 0;
    /// loop {
    ///     let is_complete = wheel.expire_batch(Tick(2000), &mut WorkBudget::unlimited(), &mut batch);
    ///     sum += batch.drain(..).map(|expired| expired.value).sum::<u64>();
    ///     if is_complete {
    ///         break;
    ///     }
    /// }
    /// assert_eq!((sum, wheel.len()), (2000 * 2001 / 2, 1000));
    /// ```
    pub fn expire_batch(&mut self, now: Tick, work: &mut WorkBudget, into: &mut Vec<Expired<T>>) -> bool {
        self.timers.expire_batch(now, work, into)
    }

    /// Returns the next tick at which [`expire_next`](Self::expire_next) has work to do, if that is no later
    /// than `at_most`: see [`Owners::next_wakeup`]. May return the deadline of a cancelled timer even if the
    /// wheel is empty.
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
