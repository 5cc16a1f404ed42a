//! The slots: which timers are where.
//!
//! ```text
//!  slot: [ 14 entries, how many, next ] ──▶ spilled line ──▶ spilled line       64 bytes each, the spilled ones full
//! ```
//!
//! Every slot has a line of its own, so a few timers need nothing else. When the line is full, it is copied whole into one of a
//! [pool](super::memory), and back when the slot has been emptied that far. So a slot is emptied by reading memory in order, and what will be
//! needed next is known early.

use alloc::boxed::Box;
use alloc::vec;

use super::line::{FULL, LIMIT, Line, Lines, Link};
use super::memory::Pool;
use super::place::{LEVELS, PLACES, Place, SLOTS};
use crate::Tick;

mod ahead;
#[cfg(test)]
mod check;
mod held;
mod sweep;
mod turn;

pub(super) use sweep::Sweep;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Slots {
    /// The tick the wheel stands at. Everything due earlier has come out; what is due now is coming out.
    pub(super) now: Tick,
    /// Nothing happens before this tick. While it is ahead, some slot that has something begins then.
    pub(super) quiet_until: Tick,
    /// What each slot begins with, of all levels.
    lines: Box<[Line; PLACES]>,
    /// One bit a slot, set if it is not empty.
    occupied: [u64; WORDS],
    spilled: Pool<Lines>,
    /// How many spilled lines each slot has. All of them are full, so this and what a slot begins with is what it holds.
    spilled_lines: Box<[u32; PLACES]>,
    /// Entries that do not count.
    pub(super) holes: usize,
    /// How many of them arming has left since some were last looked for.
    pub(super) new_holes: usize,
    sweep: Sweep,
}

const WORDS: usize = PLACES / BITS;

/// Words of a level.
const LEVEL_WORDS: usize = SLOTS / BITS;

const BITS: usize = u64::BITS as usize;

impl Slots {
    pub(super) fn new(now: Tick) -> Self {
        let lines = vec![Line::EMPTY; PLACES].into_boxed_slice();
        let spilled_lines = vec![0; PLACES].into_boxed_slice();
        Slots {
            now,
            quiet_until: Tick::MAX,
            lines: lines.try_into().expect("as many as there are"),
            occupied: [0; WORDS],
            spilled: Pool::new(),
            spilled_lines: spilled_lines.try_into().expect("as many as there are"),
            holes: 0,
            new_holes: 0,
            sweep: Sweep::default(),
        }
    }

    /// Adds an entry to its slot, which may be the next that the wheel comes to.
    #[inline(always)]
    pub(super) fn push(&mut self, place: Place, entry: u32) {
        if let Some(start) = place.start(self.now)
            && start < self.quiet_until
            && self.now < start
        {
            self.quiet_until = start;
        }
        self.put(place, entry);
    }

    /// Adds an entry that is due less than a turn of the first level ahead.
    #[inline(always)]
    pub(super) fn push_near(&mut self, place: Place, entry: u32, deadline: Tick) {
        // While this is ahead, nothing that comes before it can be where the wheel is at work.
        if deadline < self.quiet_until {
            self.quiet_until = deadline;
        }
        self.put(place, entry);
    }

    /// Adds an entry to a slot that the wheel does not come to before it looks what is next.
    #[inline(always)]
    pub(super) fn put(&mut self, place: Place, entry: u32) {
        self.occupied[place.number() / BITS] |= bit_of(place);
        let line = &mut self.lines[place.number()];
        if line.len() < FULL {
            line.push(entry);
        } else {
            self.put_into_next(place, entry);
        }
    }

    #[cold]
    #[inline(never)]
    fn put_into_next(&mut self, place: Place, entry: u32) {
        self.spill(place);
        self.lines[place.number()].push(entry);
    }

    fn spill(&mut self, place: Place) {
        let (number, page, at) = self.spilled.take(LIMIT);
        let line = &mut self.lines[place.number()];
        *page.get_mut(at) = *line;
        self.spilled_lines[place.number()] += 1;
        line.clear();
        line.set_next(Link::to(number));
    }

    /// Brings the next line of a slot whose first has run empty. `false` if the slot is empty, which is noted then.
    #[inline(never)]
    pub(super) fn refill(&mut self, place: Place) -> bool {
        let mut next = self.lines[place.number()].next();
        if next == Link::SWEPT {
            next = self.sweep.give_up(place);
        }
        let Some(number) = next.number() else {
            self.lines[place.number()].set_next(Link::END);
            self.occupied[place.number() / BITS] &= !bit_of(place);
            return false;
        };
        self.lines[place.number()] = self.bring(place, number);
        true
    }

    /// Takes a spilled line of this slot.
    fn bring(&mut self, place: Place, number: u32) -> Line {
        let line = self.spilled.give_back(number, |page, at| *page.get(at), |_| ());
        self.spilled_lines[place.number()] -= 1;
        line
    }

    #[inline(always)]
    pub(super) fn line(&self, place: Place) -> &Line {
        &self.lines[place.number()]
    }

    #[inline(always)]
    pub(super) fn line_mut(&mut self, place: Place) -> &mut Line {
        &mut self.lines[place.number()]
    }

    fn spilled_line(&self, link: Link) -> Option<&Line> {
        let (page, at) = self.spilled.at(link.number()?);
        Some(page.get(at))
    }
}

#[inline(always)]
fn bit_of(place: Place) -> u64 {
    1 << (place.number() % BITS)
}
