//! Driving the wheel: finding the next occupied slot, emptying slots, and prefetching.

mod batch;

use super::memory::{OwnerMemory, ValueLayout};
use super::slot_id::SlotId;
use super::timer_state::TimerState;
use super::wheel_core::WheelCore;
use crate::{Tick, WorkBudget};

/// Minimum total size of the owners for prefetching. Smaller wheels fit into the processor's cache.
const PREFETCH_MIN_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
pub(super) enum DriveStep {
    /// The timer of this entry is due. Its state still names the slot.
    Due(u32),
    Continue,
    OutOfBudget,
    UpToDate,
}

/// Result type of a drive, chosen by the caller. This is a trait rather than a set of closures, because the
/// compiler would not inline one of the closures, and its result would be returned in memory.
pub(super) trait DriveResult<'a, W> {
    fn due(wheel: &'a mut W, entry: u32) -> Self;
    fn out_of_budget() -> Self;
    fn up_to_date() -> Self;
}

impl<T, const K: usize, L: ValueLayout> WheelCore<T, K, L> {
    const PREFETCH_MIN_OWNERS: usize = PREFETCH_MIN_BYTES / OwnerMemory::<T, K, L>::BYTES_EACH;

    #[inline(always)]
    pub(super) fn drive<'a, R: DriveResult<'a, Self>>(&'a mut self, to: Tick, work: &mut WorkBudget) -> R {
        loop {
            let here = SlotId::current(self.slots.now, 0);
            let line = self.slots.line_mut(here);
            if !line.has_entries() {
                match self.advance(here, to, work) {
                    DriveStep::Due(entry) => return R::due(self, entry),
                    DriveStep::Continue => continue,
                    DriveStep::OutOfBudget => return R::out_of_budget(),
                    DriveStep::UpToDate => return R::up_to_date(),
                }
            }
            if !work.spend() {
                return R::out_of_budget();
            }
            let entry = line.pop();
            if self.memory.state(entry) == TimerState::in_slot(here) {
                return R::due(self, entry);
            }
            if self.resolve_unusual_entry(entry, here) {
                return R::due(self, entry);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn resolve_unusual_entry(&mut self, entry: u32, from: SlotId) -> bool {
        self.resolve_entry(entry, from)
    }

    /// Returns whether the timer of an entry taken from slot `from` is due. If not, moves a valid entry to
    /// the slot of its deadline.
    #[inline(always)]
    fn resolve_entry(&mut self, entry: u32, from: SlotId) -> bool {
        let now = self.slots.now;
        let (deadline, state) = self.memory.timer(entry);
        if !state.has_entry_in(from) {
            self.slots.holes -= 1;
            return false;
        }
        if !state.is_armed() {
            *state = TimerState::NO_ENTRY;
            return false;
        }
        if *deadline <= now {
            return true;
        }
        let slot = SlotId::of(now, *deadline);
        *state = TimerState::in_slot(slot);
        self.slots.put(slot, entry);
        false
    }

    /// Finds more work after the line of the current slot has been emptied.
    #[inline(always)]
    fn advance(&mut self, here: SlotId, to: Tick, work: &mut WorkBudget) -> DriveStep {
        if self.slots.line(here).is_empty() {
            if self.slots.now < self.slots.quiet_until {
                if to < self.slots.quiet_until {
                    return self.finish_at(to);
                }
                // If the next slot does not begin a revolution, its timers expire at its tick, and no slot of
                // a higher level begins at the same tick.
                if SlotId::current(self.slots.quiet_until, 0).position() != 0 && work.remaining() > 0 {
                    self.slots.now = self.slots.quiet_until;
                    if self.len() >= Self::PREFETCH_MIN_OWNERS {
                        self.prefetch_first(SlotId::current(self.slots.now, 0));
                    }
                    return DriveStep::Continue;
                }
            } else if here.position() != 0 && self.slots.find_next_nearby(here) {
                return if to < self.slots.quiet_until { self.finish_at(to) } else { DriveStep::Continue };
            }
        }
        let (step, left) = self.advance_far(here, to, work.remaining());
        *work = WorkBudget::new(left);
        step
    }

    /// Finishes a drive to `to` when nothing is left to do.
    #[inline(always)]
    fn finish_at(&mut self, to: Tick) -> DriveStep {
        self.slots.now = self.slots.now.max(to);
        DriveStep::UpToDate
    }

    /// The less frequent part of [`advance`](Self::advance). Takes and returns the remaining budget by value:
    /// behind a reference, the caller could not keep it in a register.
    #[inline(never)]
    fn advance_far(&mut self, here: SlotId, to: Tick, left: u64) -> (DriveStep, u64) {
        let mut work = WorkBudget::new(left);
        let step = self.advance_to_next(here, to, &mut work);
        (step, work.remaining())
    }

    fn advance_to_next(&mut self, here: SlotId, to: Tick, work: &mut WorkBudget) -> DriveStep {
        if self.slots.refill(here) {
            self.prefetch_next(here);
            self.limit_holes();
            return DriveStep::Continue;
        }
        self.limit_holes();
        let next = self.slots.find_next();
        let Some(next) = next.filter(|_| self.slots.quiet_until <= to.max(self.slots.now)) else {
            return self.finish_at(to);
        };
        if work.remaining() == 0 {
            return DriveStep::OutOfBudget;
        }
        self.slots.now = self.slots.quiet_until;
        self.prefetch_first(next);
        if next.level() > 0 { self.cascade(next, work) } else { DriveStep::Continue }
    }

    fn cascade(&mut self, from: SlotId, work: &mut WorkBudget) -> DriveStep {
        loop {
            if !self.slots.line(from).has_entries() {
                if !self.slots.refill(from) {
                    return DriveStep::Continue;
                }
                self.prefetch_next(from);
                continue;
            }
            if !work.spend() {
                return DriveStep::OutOfBudget;
            }
            let entry = self.slots.line_mut(from).pop();
            if self.resolve_entry(entry, from) {
                return DriveStep::Due(entry);
            }
        }
    }

    #[inline(never)]
    fn prefetch_first(&self, slot: SlotId) {
        if self.len() >= Self::PREFETCH_MIN_OWNERS {
            self.slots.first_two_lines(slot).for_each(|entry| self.memory.prefetch(entry));
        }
    }

    fn prefetch_next(&self, slot: SlotId) {
        if self.len() >= Self::PREFETCH_MIN_OWNERS {
            self.slots.second_line_entries(slot).for_each(|entry| self.memory.prefetch(entry));
        }
    }
}
