use super::drive::DriveResult;
use super::memory::{OwnerMemory, ValueLayout};
use super::owner::{DueTimer, OwnerExpiry, OwnerMut};
use super::slots::Slots;
use super::timer_state::TimerState;
use crate::{Expired, Expiry, Tick, TimerKey};

/// Owners with `K` timers each, and the slots that hold the timers' entries. The methods are documented on
/// the public types, each of which uses the memory layout that suits it.
pub(super) struct WheelCore<T, const K: usize, L: ValueLayout> {
    pub(super) slots: Slots,
    pub(super) memory: OwnerMemory<T, K, L>,
}

impl<T, const K: usize, L: ValueLayout> WheelCore<T, K, L> {
    pub(super) fn new(now: Tick) -> Self {
        WheelCore { slots: Slots::new(now), memory: OwnerMemory::new() }
    }

    #[inline(always)]
    pub(super) fn now(&self) -> Tick {
        self.slots.now
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, value: T) -> OwnerMut<'_, T, K> {
        self.limit_holes();
        let (index, record, value) = self.memory.insert(value);
        OwnerMut { slots: &mut self.slots, record, index, value }
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, key: TimerKey) -> Option<T> {
        let (value, left_behind) = self.memory.remove(key)?;
        self.slots.holes += left_behind;
        self.limit_holes();
        Some(value)
    }

    #[inline(always)]
    pub(super) fn get(&self, key: TimerKey) -> Option<&T> {
        self.memory.find(key).map(|(_, value)| value)
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, key: TimerKey) -> Option<OwnerMut<'_, T, K>> {
        self.limit_holes();
        let (record, value) = self.memory.find_mut(key)?;
        Some(OwnerMut { slots: &mut self.slots, record, index: key.index, value })
    }

    #[inline(always)]
    pub(super) fn deadline(&self, key: TimerKey, timer: usize) -> Option<Tick> {
        let (record, _) = self.memory.find(key)?;
        record.states[timer].is_armed().then_some(record.deadlines[timer])
    }

    #[inline(always)]
    pub(super) fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        let quiet_until = self.slots.quiet_until;
        if at_most.max(self.now()) < quiet_until {
            return None;
        }
        if self.now() < quiet_until && quiet_until < Tick::MAX {
            return Some(quiet_until);
        }
        let mut next = self.slots.next_event();
        if next.is_some_and(|(_, slot)| self.slots.line(slot).is_empty()) {
            next = self.slots.next_nonempty_event();
        }
        next.map(|(tick, _)| tick).filter(|tick| *tick <= at_most.max(self.now()))
    }

    /// Sweeps if there are too many holes. A hole wastes one word of a line. There may be half as many holes
    /// as timers that the allocated pages can hold. Beyond that, every operation that adds holes or frees a
    /// page sweeps some lines. Arming the timers of a due owner adds holes as well; these are swept whenever
    /// the wheel refills a line or moves to a later slot. Because the limit depends on the allocated pages,
    /// the lines need not shrink before the memory of the owners does.
    #[inline(always)]
    pub(super) fn limit_holes(&mut self) {
        if self.slots.holes > self.memory.max_holes() {
            self.sweep_holes();
        }
    }

    /// Sweeps `K` lines, or one for each hole that arming has added since the last call if that is more. Only
    /// holes beyond the limit count, so that no single call has to sweep for all of them.
    #[cold]
    #[inline(never)]
    fn sweep_holes(&mut self) {
        let too_many = self.slots.holes - self.memory.max_holes();
        let lines = core::mem::take(&mut self.slots.new_holes).min(too_many).max(K);
        for _ in 0..lines {
            self.slots.sweep(|entry, slot, marks| {
                let (_, state) = self.memory.timer(entry);
                let counts = state.has_entry_in(slot) && !(marks && state.is_marked());
                if counts {
                    *state = state.marked(marks);
                }
                counts
            });
            if self.slots.holes <= self.memory.max_holes() {
                break;
            }
        }
    }
}

impl<T, L: ValueLayout> WheelCore<T, 1, L> {
    #[inline(always)]
    pub(super) fn expire(&mut self, entry: u32) -> Expired<T> {
        let (key, deadline, value, left_behind) = self.memory.expire(entry);
        self.slots.holes += left_behind;
        self.limit_holes();
        Expired { key, deadline, value }
    }
}

/// Passes the owner to the caller.
impl<'a, T, const K: usize, L: ValueLayout> DriveResult<'a, WheelCore<T, K, L>> for OwnerExpiry<'a, T, K> {
    #[inline(always)]
    fn due(wheel: &'a mut WheelCore<T, K, L>, entry: u32) -> Self {
        let (index, timer, record, value) = wheel.memory.owner(entry);
        record.states[timer] = TimerState::NO_ENTRY;
        let deadline = record.deadlines[timer];
        let owner = OwnerMut { slots: &mut wheel.slots, record, index, value };
        OwnerExpiry::Due(DueTimer { timer, deadline, owner })
    }

    #[inline(always)]
    fn out_of_budget() -> Self {
        OwnerExpiry::OutOfBudget
    }

    #[inline(always)]
    fn up_to_date() -> Self {
        OwnerExpiry::UpToDate
    }
}

/// Removes the owner and returns its value.
impl<T, L: ValueLayout> DriveResult<'_, WheelCore<T, 1, L>> for Expiry<T> {
    #[inline(always)]
    fn due(wheel: &mut WheelCore<T, 1, L>, entry: u32) -> Self {
        Expiry::Due(wheel.expire(entry))
    }

    #[inline(always)]
    fn out_of_budget() -> Self {
        Expiry::OutOfBudget
    }

    #[inline(always)]
    fn up_to_date() -> Self {
        Expiry::UpToDate
    }
}
