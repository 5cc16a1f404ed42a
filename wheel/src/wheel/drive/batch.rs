use alloc::vec::Vec;

use super::{DriveStep, SlotId, TimerState, ValueLayout, WheelCore};
use crate::wheel::line::LINE_CAPACITY;
use crate::wheel::memory::sort_by_tick;
use crate::wheel::slot_id::SLOTS_PER_LEVEL;
use crate::{Expired, Tick, WorkBudget};

/// Number of timers at which a batch is returned: few enough that they are still in the processor's cache
/// when the caller handles them.
const BATCH_SIZE: usize = 1024;

const LAST_TICK_OFFSET: u64 = SLOTS_PER_LEVEL as u64 - 1;

impl<T, L: ValueLayout> WheelCore<T, 1, L> {
    /// Drives the wheel towards `to` and removes all owners whose timers are due, until the [`WorkBudget`]
    /// runs out or the batch has [`BATCH_SIZE`] timers. Returns `true` if no due timer is left.
    pub(in crate::wheel) fn expire_batch(
        &mut self,
        to: Tick,
        work: &mut WorkBudget,
        into: &mut Vec<Expired<T>>,
    ) -> bool {
        let enough = into.len().saturating_add(BATCH_SIZE);
        while into.len() < enough {
            // Reserve before removing anything, so that a failed allocation loses no timer.
            into.reserve(LINE_CAPACITY as usize);
            let here = SlotId::current(self.slots.now, 0);
            if self.slots.line(here).has_entries() {
                if work.remaining() == 0 {
                    return false;
                }
                self.expire_line(here, work, into);
            } else if let Some(start) = self.next_whole_revolution(here, to, work) {
                self.expire_revolution(start, work, into);
            } else {
                match self.advance(here, to, work) {
                    DriveStep::Due(entry) => into.push(self.expire(entry)),
                    DriveStep::Continue => {}
                    DriveStep::OutOfBudget => return false,
                    DriveStep::UpToDate => return true,
                }
            }
        }
        false
    }

    #[inline(always)]
    fn expire_line(&mut self, here: SlotId, work: &mut WorkBudget, into: &mut Vec<Expired<T>>) {
        while self.slots.line(here).has_entries() && work.spend() {
            let entry = self.slots.line_mut(here).pop();
            if self.memory.state(entry) == TimerState::in_slot(here)
                || self.resolve_unusual_entry(entry, here)
            {
                into.push(self.expire(entry));
            }
        }
    }

    /// Returns the first tick of the next revolution of level 0, if nothing happens before that tick and the
    /// budget covers the whole revolution.
    #[inline(always)]
    fn next_whole_revolution(&mut self, here: SlotId, to: Tick, work: &WorkBudget) -> Option<Tick> {
        if !self.slots.line(here).is_empty() {
            return None;
        }
        let is_known = self.slots.now < self.slots.quiet_until;
        if !is_known && (here.position() == 0 || !self.slots.find_next_nearby(here)) {
            self.slots.refill(here);
            self.limit_holes();
            self.slots.find_next();
        }
        let start = self.slots.quiet_until;
        let (first, second) = (SlotId::current(start, 0), SlotId::current(start, 1));
        // Where level 1 begins a revolution, a slot of a higher level may begin as well. That slot would have
        // to be emptied first.
        let is_whole = self.slots.now < start && first.position() == 0 && second.position() != 0;
        let is_due = is_whole && start.saturating_add(LAST_TICK_OFFSET) <= to;
        (is_due && self.slots.revolution_has_at_most(second, work.remaining())).then_some(start)
    }

    /// Removes the owners of all timers that are due in the revolution of level 0 that begins at `start`, and
    /// leaves the wheel at its last tick.
    ///
    /// The timers do not move from the slot of level 1 to the slots of level 0, where each would have to be
    /// looked up again. They are removed in the order in which they are found, and sorted afterwards.
    #[inline(never)]
    fn expire_revolution(&mut self, start: Tick, work: &mut WorkBudget, into: &mut Vec<Expired<T>>) {
        let last = start.saturating_add(LAST_TICK_OFFSET);
        let before = into.len();
        (self.slots.now, self.slots.quiet_until) = (start, start);
        let mut next = Some(SlotId::current(start, 1));
        while let Some(slot) = next {
            self.prefetch_first(slot);
            while self.slots.line(slot).has_entries() || self.slots.refill(slot) {
                into.reserve(LINE_CAPACITY as usize);
                self.expire_revolution_line(slot, last, work, into);
            }
            next = self.slots.first_occupied_of_level_0();
        }
        (self.slots.now, self.slots.quiet_until) = (last, last);
        sort_by_tick(into, before, start);
    }

    #[inline(always)]
    fn expire_revolution_line(
        &mut self,
        slot: SlotId,
        last: Tick,
        work: &mut WorkBudget,
        into: &mut Vec<Expired<T>>,
    ) {
        let is_large = self.len() >= Self::PREFETCH_MIN_OWNERS;
        let mut ahead = self.slots.second_line(slot);
        while self.slots.line(slot).has_entries() {
            if is_large && ahead.has_entries() {
                self.memory.prefetch(ahead.pop());
            }
            let is_paid = work.spend();
            debug_assert!(is_paid, "the budget covers the whole revolution");
            let entry = self.slots.line_mut(slot).pop();
            let (deadline, state) = self.memory.timer(entry);
            if state.has_entry_in(slot) && state.is_armed() && *deadline <= last {
                into.push(self.expire(entry));
            } else {
                let is_due = self.resolve_unusual_entry(entry, slot);
                debug_assert!(!is_due, "valid entries that remain are due after this revolution");
            }
        }
    }
}
