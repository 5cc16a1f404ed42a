//! Driving the wheel: what comes next, emptying slots, and fetching memory before it is needed.

use super::TimingWheel;
use super::place::{Known, Place};
use super::slots::{Change, Moved, Slots};
use super::timers::{NotDue, Scheduled};
use crate::{Expire, Expired, Tick, Work};

/// With fewer timers than this, all of them are in the processor's cache, and asking for them beforehand only costs.
const PREFETCH_FROM: usize = 16 * 1024;

impl<T> TimingWheel<T> {
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
        let now = now.max(self.now);
        loop {
            if let Some(expired) = self.expire_here(work) {
                return Expire::Due(expired);
            }
            let next = self.next_if_known();
            if now < self.quiet_until || (next.is_none() && !self.look_ahead()) {
                self.now = now;
                self.keep_holes_few();
                return Expire::UpToDate;
            }
            let Some(next) = next else { continue };
            if work.left() == 0 {
                return Expire::OutOfWork;
            }
            if self.now < self.quiet_until {
                self.now = self.quiet_until;
                self.prefetch_first(next);
            }
            if next.level() > 0
                && let Some(expired) = self.cascade(next, work)
            {
                self.keep_holes_few();
                return Expire::Due(expired);
            }
        }
    }

    /// Takes from the slot of this tick, which has nothing else, until a timer is due, or [`Work`] runs out.
    #[inline(always)]
    fn expire_here(&mut self, work: &mut Work) -> Option<Expired<T>> {
        let here = Place::current(self.now, 0);
        while !self.slots.is_empty(here) && work.spend() {
            self.prefetch_upcoming(here);
            let (index, position) = self.slots.pop(here);
            match self.timers.expire(index, position, self.now) {
                Ok(expired) => {
                    self.keep_holes_few();
                    return Some(expired);
                }
                Err(NotDue::Gone) => self.slots.count_hole_out(),
                Err(NotDue::Ahead) => self.put_off(index),
            }
        }
        None
    }

    #[cold]
    fn put_off(&mut self, index: u32) {
        let moved = put(&mut self.slots, self.now, index, &mut self.timers.at(index));
        self.note_moved(moved);
    }

    /// Empties a slot of a level above, a chunk at a time, into the levels below, until a timer in it is due, or [`Work`] runs out.
    #[inline(never)]
    fn cascade(&mut self, place: Place, work: &mut Work) -> Option<Expired<T>> {
        while work.left() > 0 && !self.slots.is_empty(place) {
            let last = self.slots.last(place);
            self.prefetch_next(place);
            let (mut taken, mut holes, mut due) = (0, 0, None);
            for (index, position) in last.iter(work.left()) {
                taken += 1;
                let Some(mut timer) = self.timers.standing_at(index, position) else {
                    holes += 1;
                    continue;
                };
                if timer.deadline() <= self.now {
                    due = self.timers.expire(index, position, self.now).ok();
                    break;
                }
                let moved = put(&mut self.slots, self.now, index, &mut timer);
                self.note_moved(moved);
            }
            work.spend_some(taken);
            self.slots.take(place, taken, holes);
            if due.is_some() {
                return due;
            }
        }
        None
    }

    /// The next tick at which [`expire_next`](Self::expire_next) has something to do, if that is no later
    /// than `at_most`.
    ///
    /// What it has to do may be moving timers down a level, so this may be earlier than the earliest
    /// deadline, but never later. While due timers are still waiting (because [`Work`] ran out), it is the
    /// tick the wheel stands at. `None` means that nothing happens up to and including `at_most`, so one can
    /// sleep until then. What was cancelled or put off may be named once more, as long as the wheel has not come to it.
    #[must_use]
    pub fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        let at_most = at_most.max(self.now);
        if at_most < self.quiet_until {
            return None;
        }
        if self.next_if_known().is_some() {
            return Some(self.quiet_until);
        }
        self.next_event().map(|(tick, _)| tick).filter(|&tick| tick <= at_most)
    }

    /// The first slot with timers that the wheel comes to, and when. It is the slot where the wheel stands
    /// until that is empty.
    #[inline]
    pub(super) fn next_event(&self) -> Option<(Tick, Place)> {
        self.slots.later_in_turn(self.now).or_else(|| self.next_event_of_all())
    }

    /// Looks into all levels.
    #[inline(never)]
    fn next_event_of_all(&self) -> Option<(Tick, Place)> {
        let mut earliest: Option<(Tick, Place)> = None;
        for level in self.slots.levels() {
            let current = Place::current(self.now, level);
            let Some(slot) = self.slots.next_occupied(level, current.slot()) else { continue };
            let place = Place::new(level, slot);
            let Some(tick) = place.start(self.now) else { continue };
            if earliest.is_none_or(|(earliest, _)| tick < earliest) {
                earliest = Some((tick, place));
            }
            // A slot of a level above begins where a turn of this one does: neither here nor before this slot.
            let same_turn = current.slot() > 0 && slot > current.slot();
            if same_turn || tick == self.now {
                break;
            }
        }
        earliest
    }

    #[inline]
    pub(super) fn next_if_known(&self) -> Option<Place> {
        self.next.place().filter(|next| !self.slots.is_empty(*next))
    }

    /// Looks for the slot that comes next. `false` if there is none.
    fn look_ahead(&mut self) -> bool {
        let event = self.next_event();
        (self.quiet_until, self.next) =
            event.map_or((Tick::MAX, Known::NONE), |(tick, place)| (tick, place.into()));
        event.is_some()
    }

    /// Fetches what a slot begins with, before it is emptied.
    fn prefetch_first(&self, place: Place) {
        if self.len() >= PREFETCH_FROM {
            self.slots.first_few(place).for_each(|index| self.timers.prefetch(index));
        }
    }

    /// Fetches what will come a chunk later.
    fn prefetch_upcoming(&self, place: Place) {
        if self.len() >= PREFETCH_FROM
            && let Some(index) = self.slots.upcoming(place)
        {
            self.timers.prefetch(index);
        }
    }

    /// Fetches what a slot's second chunk holds.
    fn prefetch_next(&self, place: Place) {
        if self.len() >= PREFETCH_FROM {
            self.slots.next_few(place).for_each(|index| self.timers.prefetch(index));
        }
    }
}

/// Puts a timer that is ahead into its slot. The wheel has something to do now, so it will look for what comes next.
#[inline(always)]
fn put(slots: &mut Slots, now: Tick, index: u32, timer: &mut Scheduled<'_>) -> Option<Moved> {
    let (position, change) = slots.push(Place::of(now, timer.deadline()), index);
    timer.set_position(position);
    if let Change::Moved(moved) = change { Some(moved) } else { None }
}
