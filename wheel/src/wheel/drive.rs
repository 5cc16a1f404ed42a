//! Driving the wheel: what comes next, emptying slots, and fetching memory before it is needed.

mod batch;

use super::engine::Wheel;
use super::memory::{Layout, Owners};
use super::place::Place;
use super::state::State;
use crate::{Tick, Work};

/// Owners of fewer bytes are in the processor's cache, and asking for them beforehand only costs.
const PREFETCH_FROM_BYTES: usize = 1 << 20;

/// What driving the wheel a little further has come to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// The timer of this entry is due. Its state still says where it stood.
    Due(u32),
    GoOn,
    OutOfWork,
    UpToDate,
}

/// What a caller gets who drives a wheel. Not closures, of which one would be a call with its result in memory.
pub(super) trait Outcome<'a, W> {
    /// The timer of this entry is due. Its state still says where it stood.
    fn due(wheel: &'a mut W, entry: u32) -> Self;
    fn out_of_work() -> Self;
    fn up_to_date() -> Self;
}

impl<T, const K: usize, L: Layout> Wheel<T, K, L> {
    const PREFETCH_FROM: usize = PREFETCH_FROM_BYTES / Owners::<T, K, L>::BYTES_EACH;

    /// Drives the wheel towards `to`, until a timer is due, or [`Work`] runs out.
    #[inline(always)]
    pub(super) fn drive<'a, R: Outcome<'a, Self>>(&'a mut self, to: Tick, work: &mut Work) -> R {
        loop {
            let here = Place::current(self.slots.now, 0);
            let line = self.slots.line_mut(here);
            if !line.has_entries() {
                match self.move_on(here, to, work) {
                    Step::Due(entry) => return R::due(self, entry),
                    Step::GoOn => continue,
                    Step::OutOfWork => return R::out_of_work(),
                    Step::UpToDate => return R::up_to_date(),
                }
            }
            if !work.spend() {
                return R::out_of_work();
            }
            let entry = line.pop();
            if self.memory.state(entry) == State::standing_in(here) {
                return R::due(self, entry);
            }
            if self.is_due(entry, here) {
                return R::due(self, entry);
            }
        }
    }

    /// An entry that may be a hole, disarmed, or put off.
    #[cold]
    #[inline(never)]
    fn is_due(&mut self, entry: u32, from: Place) -> bool {
        self.take(entry, from)
    }

    /// Whether the timer of an entry that was taken out of this slot is due. If it is not, it has gone where it belongs, if it counts.
    #[inline(always)]
    fn take(&mut self, entry: u32, from: Place) -> bool {
        let now = self.slots.now;
        let (deadline, state) = self.memory.timer(entry);
        if !state.is_in(from) {
            self.slots.holes -= 1;
            return false;
        }
        if !state.is_armed() {
            *state = State::NOWHERE;
            return false;
        }
        if *deadline <= now {
            return true;
        }
        let place = Place::of(now, *deadline);
        *state = State::standing_in(place);
        self.slots.put(place, entry);
        false
    }

    /// The line of the slot where the wheel stands has run empty.
    #[inline(always)]
    fn move_on(&mut self, here: Place, to: Tick, work: &mut Work) -> Step {
        if self.slots.line(here).is_empty() {
            if self.slots.now < self.slots.quiet_until {
                if to < self.slots.quiet_until {
                    return self.stop(to);
                }
                // What is in a slot that does not begin a turn is expired there, and nothing else begins then.
                if Place::current(self.slots.quiet_until, 0).slot() != 0 && work.left() > 0 {
                    self.slots.now = self.slots.quiet_until;
                    if self.len() >= Self::PREFETCH_FROM {
                        self.prefetch_first(Place::current(self.slots.now, 0));
                    }
                    return Step::GoOn;
                }
            } else if here.slot() != 0 && self.slots.look_near(here) {
                return if to < self.slots.quiet_until { self.stop(to) } else { Step::GoOn };
            }
        }
        let (step, left) = self.move_far(here, to, work.left());
        *work = Work::new(left);
        step
    }

    /// Nothing more happens up to and including `to`.
    #[inline(always)]
    fn stop(&mut self, to: Tick) -> Step {
        self.slots.now = self.slots.now.max(to);
        Step::UpToDate
    }

    /// Like [`move_on`](Self::move_on), for what happens less often. Returns what is left of the budget as well: a caller who only lends it
    /// could not keep it in a register.
    #[inline(never)]
    fn move_far(&mut self, here: Place, to: Tick, left: u64) -> (Step, u64) {
        let mut work = Work::new(left);
        let step = self.move_to_next(here, to, &mut work);
        (step, work.left())
    }

    fn move_to_next(&mut self, here: Place, to: Tick, work: &mut Work) -> Step {
        if self.slots.refill(here) {
            self.prefetch_next(here);
            self.keep_holes_few();
            return Step::GoOn;
        }
        self.keep_holes_few();
        let next = self.slots.look_ahead();
        let Some(next) = next.filter(|_| self.slots.quiet_until <= to.max(self.slots.now)) else {
            return self.stop(to);
        };
        if work.left() == 0 {
            return Step::OutOfWork;
        }
        self.slots.now = self.slots.quiet_until;
        self.prefetch_first(next);
        if next.level() > 0 { self.cascade(next, work) } else { Step::GoOn }
    }

    /// Empties a slot of a level above into the levels below, until a timer in it is due, or [`Work`] runs out.
    fn cascade(&mut self, from: Place, work: &mut Work) -> Step {
        loop {
            if !self.slots.line(from).has_entries() {
                if !self.slots.refill(from) {
                    return Step::GoOn;
                }
                self.prefetch_next(from);
                continue;
            }
            if !work.spend() {
                return Step::OutOfWork;
            }
            let entry = self.slots.line_mut(from).pop();
            if self.take(entry, from) {
                return Step::Due(entry);
            }
        }
    }

    /// Fetches what a slot begins with, before it is emptied.
    #[inline(never)]
    fn prefetch_first(&self, place: Place) {
        if self.len() >= Self::PREFETCH_FROM {
            self.slots.first_few(place).for_each(|entry| self.memory.prefetch(entry));
        }
    }

    /// Fetches what a slot's second line has.
    fn prefetch_next(&self, place: Place) {
        if self.len() >= Self::PREFETCH_FROM {
            self.slots.next_few(place).for_each(|entry| self.memory.prefetch(entry));
        }
    }
}
