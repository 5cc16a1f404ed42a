//! The slots and their entries.
//!
//! ```text
//!  slot: [ 14 entries, number of entries, next ] ──▶ spilled line ──▶ spilled line       64 bytes each
//! ```
//!
//! Every slot has its own line, so a few timers need no other memory. A full line is copied as a whole into a
//! [pool](super::memory), and copied back when the lines added after it have been emptied. Spilled lines are
//! therefore always full. Emptying a slot reads memory sequentially, and the wheel knows early what it will
//! need next.

use alloc::boxed::Box;
use alloc::vec;

use super::line::{EntryLine, LINE_CAPACITY, LineLink, LinePage, MAX_SPILLED_LINES};
use super::memory::Pool;
use super::slot_id::{LEVELS, SLOT_COUNT, SLOTS_PER_LEVEL, SlotId};
use crate::Tick;

mod ahead;
#[cfg(test)]
mod check;
mod counts;
mod revolution;
mod sweep;

pub(super) use sweep::Sweep;

#[derive(Debug)]
pub(super) struct Slots {
    /// Current tick of the wheel. All timers due earlier have expired; timers due now are expiring.
    pub(super) now: Tick,
    /// Tick before which nothing happens. If it is in the future, a non-empty slot begins at this tick.
    pub(super) quiet_until: Tick,
    /// First line of each slot, of all levels.
    lines: Box<[EntryLine; SLOT_COUNT]>,
    /// One bit per slot, set if the slot is not empty. The bit of the current slot may still be set when the
    /// slot is already empty.
    occupied: [u64; WORDS],
    spilled: Pool<LinePage>,
    /// Number of spilled lines of each slot. All spilled lines are full, so this and the length of the first
    /// line give the number of entries.
    spilled_lines: Box<[u32; SLOT_COUNT]>,
    pub(super) holes: usize,
    /// Number of holes that arming timers has added since the last sweep.
    pub(super) new_holes: usize,
    sweep: Sweep,
}

const WORDS: usize = SLOT_COUNT / BITS;

const WORDS_PER_LEVEL: usize = SLOTS_PER_LEVEL / BITS;

const BITS: usize = u64::BITS as usize;

impl Slots {
    pub(super) fn new(now: Tick) -> Self {
        let lines = vec![EntryLine::EMPTY; SLOT_COUNT].into_boxed_slice();
        let spilled_lines = vec![0; SLOT_COUNT].into_boxed_slice();
        Slots {
            now,
            quiet_until: Tick::MAX,
            lines: lines.try_into().expect("the length matches"),
            occupied: [0; WORDS],
            spilled: Pool::new(),
            spilled_lines: spilled_lines.try_into().expect("the length matches"),
            holes: 0,
            new_holes: 0,
            sweep: Sweep::default(),
        }
    }

    /// Adds an entry to its slot, which may now be the next occupied slot.
    #[inline(always)]
    pub(super) fn push(&mut self, slot: SlotId, entry: u32) {
        if let Some(start) = slot.start(self.now)
            && start < self.quiet_until
            && self.now < start
        {
            self.quiet_until = start;
        }
        self.put(slot, entry);
    }

    /// Adds an entry for a timer that is due less than one revolution of level 0 ahead.
    #[inline(always)]
    pub(super) fn push_near(&mut self, slot: SlotId, entry: u32, deadline: Tick) {
        // If `deadline` is before `quiet_until`, its slot is not the slot that the wheel is emptying.
        if deadline < self.quiet_until {
            self.quiet_until = deadline;
        }
        self.put(slot, entry);
    }

    /// Adds an entry to a slot that the wheel does not reach before it next searches for an occupied slot.
    #[inline(always)]
    pub(super) fn put(&mut self, slot: SlotId, entry: u32) {
        self.occupied[slot.index() / BITS] |= bit_of(slot);
        let line = &mut self.lines[slot.index()];
        if line.len() < LINE_CAPACITY {
            line.push(entry);
        } else {
            self.spill_and_push(slot, entry);
        }
    }

    #[cold]
    #[inline(never)]
    fn spill_and_push(&mut self, slot: SlotId, entry: u32) {
        self.spill(slot);
        self.lines[slot.index()].push(entry);
    }

    fn spill(&mut self, slot: SlotId) {
        let (number, page, at) = self.spilled.allocate(MAX_SPILLED_LINES);
        let line = &mut self.lines[slot.index()];
        *page.get_mut(at) = *line;
        self.spilled_lines[slot.index()] += 1;
        line.clear();
        line.set_next(LineLink::to(number));
    }

    /// Loads the next line of a slot whose first line is empty. Returns `false` and clears the slot's bit if
    /// no line follows.
    #[inline(never)]
    pub(super) fn refill(&mut self, slot: SlotId) -> bool {
        let mut next = self.lines[slot.index()].next();
        if next == LineLink::SWEPT {
            next = self.sweep.abandon(slot);
        }
        let Some(number) = next.number() else {
            self.lines[slot.index()].set_next(LineLink::END);
            self.occupied[slot.index() / BITS] &= !bit_of(slot);
            return false;
        };
        self.lines[slot.index()] = self.take_spilled(slot, number);
        true
    }

    fn take_spilled(&mut self, slot: SlotId, number: u32) -> EntryLine {
        let line = self.spilled.free(number, |page, at| *page.get(at), |_| ());
        self.spilled_lines[slot.index()] -= 1;
        line
    }

    #[inline(always)]
    pub(super) fn line(&self, slot: SlotId) -> &EntryLine {
        &self.lines[slot.index()]
    }

    #[inline(always)]
    pub(super) fn line_mut(&mut self, slot: SlotId) -> &mut EntryLine {
        &mut self.lines[slot.index()]
    }

    fn spilled_line(&self, link: LineLink) -> Option<&EntryLine> {
        let (page, at) = self.spilled.at(link.number()?);
        Some(page.get(at))
    }
}

#[inline(always)]
fn bit_of(slot: SlotId) -> u64 {
    1 << (slot.index() % BITS)
}
