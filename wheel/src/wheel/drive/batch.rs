//! Taking many timers out at a time.

use alloc::vec::Vec;

use super::{Layout, Place, State, Step, Wheel};
use crate::wheel::line::FULL;
use crate::wheel::memory::put_in_order;
use crate::wheel::place::SLOTS;
use crate::{Expired, Tick, Work};

/// So many are taken at a time, and few enough to be in the processor's cache when the caller comes to them.
const ENOUGH: usize = 1024;

/// From the first tick of a turn to the last.
const REST_OF_TURN: u64 = SLOTS as u64 - 1;

impl<T, L: Layout> Wheel<T, 1, L> {
    /// Drives the wheel towards `to`, and takes out all owners whose timers are due: as many as there is [`Work`] for, and no more once they
    /// are [`ENOUGH`]. Returns whether these were all.
    pub(in crate::wheel) fn expire_batch(
        &mut self,
        to: Tick,
        work: &mut Work,
        into: &mut Vec<Expired<T>>,
    ) -> bool {
        let enough = into.len().saturating_add(ENOUGH);
        while into.len() < enough {
            // Before anything is taken out, in case there is no room to be had.
            into.reserve(FULL as usize);
            let here = Place::current(self.slots.now, 0);
            if self.slots.line(here).has_entries() {
                if work.left() == 0 {
                    return false;
                }
                self.expire_line(here, work, into);
            } else if let Some(start) = self.next_turn(here, to, work) {
                self.expire_turn(start, work, into);
            } else {
                match self.move_on(here, to, work) {
                    Step::Due(entry) => into.push(self.expire(entry)),
                    Step::GoOn => {}
                    Step::OutOfWork => return false,
                    Step::UpToDate => return true,
                }
            }
        }
        false
    }

    /// Takes out what is due of the line that the slot of this tick begins with.
    #[inline(always)]
    fn expire_line(&mut self, here: Place, work: &mut Work, into: &mut Vec<Expired<T>>) {
        while self.slots.line(here).has_entries() && work.spend() {
            let entry = self.slots.line_mut(here).pop();
            if self.memory.state(entry) == State::standing_in(here) || self.is_due(entry, here) {
                into.push(self.expire(entry));
            }
        }
    }

    /// The first tick of the next turn of the first level, if nothing comes before it, and all of that turn can be taken out at once.
    #[inline(always)]
    fn next_turn(&mut self, here: Place, to: Tick, work: &Work) -> Option<Tick> {
        if !self.slots.line(here).is_empty() {
            return None;
        }
        let is_known = self.slots.now < self.slots.quiet_until;
        if !is_known && (here.slot() == 0 || !self.slots.look_near(here)) {
            self.slots.refill(here);
            self.keep_holes_few();
            self.slots.look_ahead();
        }
        let start = self.slots.quiet_until;
        let (first, second) = (Place::current(start, 0), Place::current(start, 1));
        // Where the second level begins a turn, so may a slot of the levels above, which has to be emptied before.
        let is_whole = self.slots.now < start && first.slot() == 0 && second.slot() != 0;
        let is_due = is_whole && start.saturating_add(REST_OF_TURN) <= to;
        (is_due && self.slots.turn_has_at_most(second, work.left())).then_some(start)
    }

    /// Takes out what is due within the turn of the first level that begins at `start`, and leaves the wheel at its last tick.
    ///
    /// Timers do not go from the slot of the second level to those of the first, where they would be looked up again. They come out as they
    /// are found, and are put in order afterwards.
    #[inline(never)]
    fn expire_turn(&mut self, start: Tick, work: &mut Work, into: &mut Vec<Expired<T>>) {
        let last = start.saturating_add(REST_OF_TURN);
        let before = into.len();
        (self.slots.now, self.slots.quiet_until) = (start, start);
        let mut next = Some(Place::current(start, 1));
        while let Some(place) = next {
            self.prefetch_first(place);
            while self.slots.line(place).has_entries() || self.slots.refill(place) {
                into.reserve(FULL as usize);
                self.expire_line_of_turn(place, last, work, into);
            }
            next = self.slots.first_of_first_level();
        }
        (self.slots.now, self.slots.quiet_until) = (last, last);
        put_in_order(into, before, start);
    }

    #[inline(always)]
    fn expire_line_of_turn(&mut self, place: Place, last: Tick, work: &mut Work, into: &mut Vec<Expired<T>>) {
        let is_large = self.len() >= Self::PREFETCH_FROM;
        let mut ahead = self.slots.second_line(place);
        while self.slots.line(place).has_entries() {
            if is_large && ahead.has_entries() {
                self.memory.prefetch(ahead.pop());
            }
            let is_paid = work.spend();
            debug_assert!(is_paid, "there was enough for the whole turn");
            let entry = self.slots.line_mut(place).pop();
            let (deadline, state) = self.memory.timer(entry);
            if state.is_in(place) && state.is_armed() && *deadline <= last {
                into.push(self.expire(entry));
            } else {
                let is_due = self.is_due(entry, place);
                debug_assert!(!is_due, "what counts is due after this turn");
            }
        }
    }
}
