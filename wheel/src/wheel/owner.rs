use core::fmt;
use core::ops::RangeInclusive;

use super::memory::{self, Record};
use super::slot_id::SlotId;
use super::slots::Slots;
use super::timer_state::TimerState;
use crate::{Tick, TimerKey, range};

/// Result of [`Owners::expire_next`](crate::Owners::expire_next).
#[derive(Debug)]
#[must_use]
pub enum OwnerExpiry<'a, T, const K: usize> {
    /// A timer of this owner is due. More may follow.
    Due(DueTimer<'a, T, K>),
    /// The budget is exhausted and work remains. The next call continues where this one stopped.
    OutOfBudget,
    /// Every timer that was due has expired.
    UpToDate,
}

/// An expired timer and its owner.
#[derive(Debug)]
pub struct DueTimer<'a, T, const K: usize> {
    /// Index of the timer.
    pub timer: usize,
    /// Deadline with which the timer was armed. The wheel is at this tick, or at a later tick if the deadline
    /// was not in the future.
    pub deadline: Tick,
    /// The owner, for arming its timers.
    pub owner: OwnerMut<'a, T, K>,
}

/// Exclusive access to one owner, its value and its timers, after a single look-up.
pub struct OwnerMut<'a, T, const K: usize> {
    pub(super) slots: &'a mut Slots,
    pub(super) record: &'a mut Record<K>,
    pub(super) index: u32,
    pub(super) value: &'a mut T,
}

impl<'a, T, const K: usize> OwnerMut<'a, T, K> {
    /// Converts this into a mutable reference to the owner's value, which lives as long as the borrow of the
    /// wheel.
    #[must_use]
    #[inline(always)]
    pub fn into_value(self) -> &'a mut T {
        self.value
    }

    /// Returns the current tick of the wheel.
    #[must_use]
    #[inline(always)]
    pub fn now(&self) -> Tick {
        self.slots.now
    }

    /// Returns the owner's key.
    #[must_use]
    #[inline(always)]
    pub fn key(&self) -> TimerKey {
        TimerKey { index: self.index, generation: self.record.generation() }
    }

    /// Returns a reference to the owner's value.
    #[must_use]
    #[inline(always)]
    pub fn value(&self) -> &T {
        self.value
    }

    /// Returns a mutable reference to the owner's value.
    #[must_use]
    #[inline(always)]
    pub fn value_mut(&mut self) -> &mut T {
        self.value
    }

    /// Returns the deadline with which a timer was armed, even if the deadline had already passed then, or
    /// `None` if the timer is not armed.
    ///
    /// # Panics
    ///
    /// Like all methods that take a timer, panics if `timer` is not below `K`.
    #[must_use]
    #[inline(always)]
    pub fn deadline(&self, timer: usize) -> Option<Tick> {
        self.record.states[timer].is_armed().then_some(self.record.deadlines[timer])
    }

    /// Arms a timer, or changes its deadline.
    ///
    /// If the deadline is not later than [`now`](Self::now), the timer is due at the next tick. At
    /// [`Tick::MAX`] there is no next tick: a timer armed at that tick never expires.
    ///
    /// A postponed timer stays in its slot and only moves when the wheel reaches that slot. Postponing is
    /// therefore almost free, and so is disarming and arming again.
    /// [`next_wakeup`](crate::Owners::next_wakeup) may return the previous deadline once.
    #[inline(always)]
    pub fn arm(&mut self, timer: usize, deadline: Tick) {
        let entry = memory::entry::<K>(self.index, timer);
        if self.record.states[timer] == TimerState::NO_ENTRY
            && let Some(slot) = SlotId::near(self.slots.now, deadline)
        {
            self.record.deadlines[timer] = deadline;
            self.record.states[timer] = TimerState::in_slot(slot);
            self.slots.push_near(slot, entry, deadline);
        } else {
            arm(self.slots, self.record, timer, deadline, entry);
        }
    }

    /// Like [`arm`](Self::arm) with a deadline anywhere in `range`, so that the wheel can choose the cheapest
    /// tick. Does nothing if the timer is already armed with a deadline in `range`.
    ///
    /// The cheapest tick is the first tick of a slot, on the highest level that has such a tick in the range.
    /// Of several candidates, the latest is chosen. If the range lies between two multiples of 256, the
    /// cheapest tick is the one divisible by the highest power of two. In both cases timers with overlapping
    /// ranges tend to expire together.
    ///
    /// If the whole range has passed, the deadline is its end. If the range is empty, the deadline is its
    /// start.
    #[inline(always)]
    pub fn arm_within(&mut self, timer: usize, range: RangeInclusive<Tick>) {
        let is_armed = self.record.states[timer].is_armed();
        if !(is_armed && range::includes(&range, self.record.deadlines[timer])) {
            let entry = memory::entry::<K>(self.index, timer);
            let (start, end) = range.into_inner();
            arm_in_range(self.slots, self.record, timer, start, end, entry);
        }
    }

    /// Disarms a timer. Returns whether it was armed.
    #[inline(always)]
    pub fn disarm(&mut self, timer: usize) -> bool {
        let state = &mut self.record.states[timer];
        let was_armed = state.is_armed();
        *state = state.disarmed();
        was_armed
    }
}

/// Arms a timer. Keeps a valid entry in its slot unless the wheel reaches the slot too late for the new
/// deadline.
#[inline(never)]
fn arm<const K: usize>(slots: &mut Slots, record: &mut Record<K>, timer: usize, deadline: Tick, entry: u32) {
    let (state, old) = (&mut record.states[timer], &mut record.deadlines[timer]);
    let stays = deadline > slots.now
        && (state.is_armed() && deadline >= *old || is_reached_by(slots, *state, deadline));
    *old = deadline;
    if stays {
        *state = state.postponed();
        return;
    }
    let slot = SlotId::of(slots.now, deadline);
    // A timer armed repeatedly with past deadlines is already in the right slot, the slot of the next tick.
    if !state.has_entry_in(slot) {
        let left_behind = usize::from(state.slot().is_some());
        slots.holes += left_behind;
        slots.new_holes += left_behind;
        slots.push(slot, entry);
    }
    *state = TimerState::in_slot(slot);
}

/// Returns whether the wheel reaches the timer's entry no later than `deadline`.
fn is_reached_by(slots: &Slots, state: TimerState, deadline: Tick) -> bool {
    let start = state.slot().and_then(|slot| slot.start(slots.now));
    start.is_some_and(|start| start <= deadline)
}

#[cold]
#[inline(never)]
fn arm_in_range<const K: usize>(
    slots: &mut Slots,
    record: &mut Record<K>,
    timer: usize,
    start: Tick,
    end: Tick,
    entry: u32,
) {
    let deadline = range::choose(slots.now, &(start..=end));
    arm(slots, record, timer, deadline, entry);
}

impl<T: fmt::Debug, const K: usize> fmt::Debug for OwnerMut<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerMut")
            .field("key", &self.key())
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}
