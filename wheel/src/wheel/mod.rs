//! The wheel itself.

#[cfg(test)]
pub(crate) mod check;
mod chunk;
mod place;
mod pool;
mod queue;
mod slots;
mod timers;

use core::fmt;
use core::ops::RangeInclusive;

use crate::{Expire, Expired, Tick, TimerKey, Work, range};
use chunk::Position;
pub use place::LEVELS;
use place::{Known, Place};
use slots::{Moved, Slots};
use timers::{NotDue, Scheduled, Timers};

/// With fewer timers than this, all of them are in the processor's cache, and asking for them beforehand only costs.
const PREFETCH_FROM: usize = 16 * 1024;

/// How many chunks are looked at for each timer that is cancelled or moved while there are too many holes. One would do on average:
/// then a third of what chunks hold is holes.
const CHUNKS_SWEPT: usize = 2;

/// Timers that each carry a `T`, ordered by deadline. The [crate documentation](crate) tells how to use it.
///
/// The wheel holds at most 2^30 timers at a time and panics when asked for one more. It takes 21 to 23 bytes a timer and the value,
/// in pages of 1024 timers, of which the lowest is filled first; empty ones are given back.
pub struct TimingWheel<T> {
    /// The tick the wheel stands at. Everything due earlier has come out; what is due now is coming out.
    now: Tick,
    /// Nothing happens before this tick.
    quiet_until: Tick,
    /// The slot that begins then, if it is known. While there is something in it, it need not be looked for.
    next: Known,
    slots: Slots,
    timers: Timers<T>,
}

impl<T> TimingWheel<T> {
    /// An empty wheel that stands at `now`.
    #[must_use]
    pub fn new(now: Tick) -> Self {
        TimingWheel { now, quiet_until: Tick::MAX, next: Known::NONE, slots: Slots::new(), timers: Timers::new() }
    }

    /// The tick the wheel stands at: the latest it was driven to or, when [`Work`] ran out on the way there,
    /// the one at which it stopped.
    #[must_use]
    pub fn now(&self) -> Tick {
        self.now
    }

    /// How many timers are scheduled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.timers.len()
    }

    /// Whether no timer is scheduled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many timers each level holds, the nearest level first. Some that were cancelled or moved are counted still.
    #[must_use]
    pub fn occupancy(&self) -> [usize; LEVELS] {
        core::array::from_fn(|level| self.slots.len(level))
    }

    /// Schedules a timer that is due at `deadline`, in constant time.
    ///
    /// A deadline that is not ahead of [`now`](Self::now) is due at the next tick. At [`Tick::MAX`] there is
    /// no next tick: what is scheduled then never expires, and stays until it is cancelled.
    ///
    /// # Panics
    ///
    /// If the wheel holds 2^30 timers already.
    pub fn schedule(&mut self, deadline: Tick, value: T) -> TimerKey {
        let place = self.place_of(deadline);
        let mut moved = None;
        let key = self.timers.insert(deadline, value, |index| {
            let (position, displaced) = self.slots.push(place, index);
            moved = displaced;
            position
        });
        self.note(moved);
        key
    }

    /// Schedules a timer that may come out at any tick in `range`, so that the wheel can choose the cheapest.
    ///
    /// That is the first tick of a slot, of the highest level that has one in the range; of several the
    /// latest. If the range lies between two multiples of 256, it is the tick divisible by the highest power
    /// of two. Either way timers with overlapping ranges tend to come out together.
    ///
    /// Of a range that is over, the end is the deadline. Of an empty range it is the start.
    ///
    /// # Panics
    ///
    /// If the wheel holds 2^30 timers already.
    pub fn schedule_within(&mut self, range: RangeInclusive<Tick>, value: T) -> TimerKey {
        self.schedule(range::choose(self.now, &range), value)
    }

    /// Gives a timer another deadline, in constant time. Returns `false` if the key is stale.
    ///
    /// A timer that is due but has not come out yet is postponed like any other.
    ///
    /// One that is put off stays where it is until the wheel comes to it, and moves then. So putting off costs next to nothing,
    /// however often; and [`next_wakeup`](Self::next_wakeup) may name, once, the deadline that it had before.
    pub fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> bool {
        let Some(mut timer) = self.timers.find(key) else { return false };
        let put_off = deadline >= timer.deadline() && deadline > self.now;
        timer.set_deadline(deadline);
        if !put_off {
            let from = timer.position();
            self.relocate(key.index, from, deadline);
        }
        true
    }

    #[inline(never)]
    fn relocate(&mut self, index: u32, from: Position, deadline: Tick) {
        let to = self.place_of(deadline);
        self.slots.leave(from);
        let (position, displaced) = self.slots.push(to, index);
        self.timers.at(index).set_position(position);
        self.note(displaced);
        self.keep_holes_few();
    }

    /// Like [`reschedule`](Self::reschedule) with a deadline chosen as in
    /// [`schedule_within`](Self::schedule_within), but does nothing if the present deadline lies in `range`.
    /// Returns `false` if the key is stale.
    pub fn reschedule_within(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> bool {
        match self.deadline(key) {
            Some(deadline) if range::includes(&range, deadline) => true,
            _ => self.reschedule(key, range::choose(self.now, &range)),
        }
    }

    /// Takes a timer out before it expires, in constant time. Returns `None` if the key is stale.
    pub fn cancel(&mut self, key: TimerKey) -> Option<T> {
        let (position, value) = self.timers.cancel(key)?;
        self.slots.leave(position);
        self.keep_holes_few();
        Some(value)
    }

    /// The deadline that a timer was scheduled for, even if it lies in the past.
    #[must_use]
    pub fn deadline(&self, key: TimerKey) -> Option<Tick> {
        self.timers.get(key).map(|(deadline, _)| deadline)
    }

    /// The value of a timer.
    #[must_use]
    pub fn get(&self, key: TimerKey) -> Option<&T> {
        self.timers.get(key).map(|(_, value)| value)
    }

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
            if now < self.quiet_until {
                self.now = now;
                return Expire::UpToDate;
            }
            let Some(next) = self.next_if_known() else {
                if self.look_ahead() {
                    continue;
                }
                self.now = now;
                return Expire::UpToDate;
            };
            if work.left() == 0 {
                return Expire::OutOfWork;
            }
            if self.now < self.quiet_until {
                self.now = self.quiet_until;
                self.prefetch_first(next);
            }
            if next.level > 0 {
                let Some(expired) = self.cascade(next, work) else { continue };
                return Expire::Due(expired);
            }
            while !self.slots.is_empty(next) && work.spend() {
                self.prefetch_upcoming(next);
                let (index, position) = self.slots.pop(next);
                match self.timers.expire(index, position, self.now) {
                    Ok(expired) => return Expire::Due(expired),
                    Err(NotDue::Gone) => self.slots.fill_hole(),
                    Err(NotDue::Ahead) => self.put_off(index),
                }
            }
        }
    }

    #[cold]
    fn put_off(&mut self, index: u32) {
        let displaced = put(&mut self.slots, self.now, index, &mut self.timers.at(index));
        self.note(displaced);
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
                let displaced = put(&mut self.slots, self.now, index, &mut timer);
                self.note(displaced);
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
    /// sleep until then.
    #[must_use]
    pub fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        let at_most = at_most.max(self.now);
        if at_most < self.quiet_until || self.is_empty() {
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
    fn next_event(&self) -> Option<(Tick, Place)> {
        self.slots.later_in_turn(self.now).or_else(|| self.next_event_of_all())
    }

    /// Looks into all levels.
    #[inline(never)]
    fn next_event_of_all(&self) -> Option<(Tick, Place)> {
        let mut earliest: Option<(Tick, Place)> = None;
        for level in self.slots.levels() {
            let current = Place::current(self.now, level);
            let Some(slot) = self.slots.next_occupied(current.level, current.slot) else { continue };
            let place = Place { slot, ..current };
            let Some(tick) = place.start(self.now) else { continue };
            if earliest.is_none_or(|(earliest, _)| tick < earliest) {
                earliest = Some((tick, place));
            }
            // A slot of a level above begins where a turn of this one does: neither here nor before this slot.
            let same_turn = current.slot > 0 && slot > current.slot;
            if same_turn || tick == self.now {
                break;
            }
        }
        earliest
    }

    /// Where a timer goes that is due at `deadline`.
    fn place_of(&mut self, deadline: Tick) -> Place {
        let (place, start) = Place::of(self.now, deadline);
        if start < self.quiet_until && self.now < start {
            (self.quiet_until, self.next) = (start, place.into());
        }
        place
    }

    #[inline]
    fn next_if_known(&self) -> Option<Place> {
        self.next.place().filter(|next| !self.slots.is_empty(*next))
    }

    /// Looks for the slot that comes next. `false` if there is none.
    fn look_ahead(&mut self) -> bool {
        let event = self.next_event();
        (self.quiet_until, self.next) = event.map_or((Tick::MAX, Known::NONE), |(tick, place)| (tick, place.into()));
        event.is_some()
    }

    /// Every hole is one more word in a slot. With the timers, they may be half as many again as the pages there are have room
    /// for: chunks need not shrink before the timers' own memory can.
    #[inline]
    fn keep_holes_few(&mut self) {
        let room = self.timers.room();
        if self.timers.len() + self.slots.holes() > room + room / 2 {
            self.fill_holes();
        }
    }

    #[cold]
    fn fill_holes(&mut self) {
        for _ in 0..CHUNKS_SWEPT {
            self.slots.sweep(|index, from, to| match self.timers.standing_at(index, from) {
                Some(mut timer) => {
                    timer.set_position(to);
                    true
                }
                None => false,
            });
        }
    }

    /// A timer was moved, to fill a hole or because it is not alone any more.
    fn note(&mut self, moved: Option<Moved>) {
        if let Some(Moved { index, to }) = moved {
            self.timers.at(index).set_position(to);
        }
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

/// Puts a timer that is ahead into its slot. Returns which other had to move.
#[inline(always)]
fn put(slots: &mut Slots, now: Tick, index: u32, timer: &mut Scheduled<'_>) -> Option<Moved> {
    let (to, _) = Place::of(now, timer.deadline());
    let (position, displaced) = slots.push(to, index);
    timer.set_position(position);
    displaced
}

impl<T> fmt::Debug for TimingWheel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimingWheel")
            .field("now", &self.now)
            .field("len", &self.len())
            .field("occupancy", &self.occupancy())
            .finish_non_exhaustive()
    }
}
