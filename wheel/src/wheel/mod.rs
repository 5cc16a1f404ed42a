//! The wheel itself.

#[cfg(test)]
pub(crate) mod check;
mod chunk;
mod drive;
mod place;
mod pool;
mod queue;
mod slots;
mod timers;

use core::fmt;
use core::ops::RangeInclusive;

use crate::{Tick, TimerKey, range};
use chunk::Position;
pub use place::LEVELS;
use place::{Known, Place};
use slots::{Change, Moved, Slots};
use timers::{PAGE, Timers};

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
        TimingWheel {
            now,
            quiet_until: Tick::MAX,
            next: Known::NONE,
            slots: Slots::new(),
            timers: Timers::new(),
        }
    }

    /// The tick the wheel stands at: the latest it was driven to or, when [`Work`](crate::Work) ran out on the way there,
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
        let place = Place::of(self.now, deadline);
        let mut change = Change::Nothing;
        let key = self.timers.insert(deadline, value, |index| {
            let position;
            (position, change) = self.slots.push(place, index);
            position
        });
        self.note(place, change);
        self.keep_holes_few();
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
        let to = Place::of(self.now, deadline);
        self.slots.leave(from);
        let (position, change) = self.slots.push(to, index);
        self.timers.at(index).set_position(position);
        self.note(to, change);
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
    ///
    /// [`next_wakeup`](Self::next_wakeup) may name, once, the deadline that it had.
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

    /// Every hole is one more word in a chunk. With the timers, they may be half as many again as the pages there are have room
    /// for; beyond that, whatever adds to them or takes a page away fills some. Chunks need not shrink before the timers' own
    /// memory can.
    #[inline]
    pub(super) fn keep_holes_few(&mut self) {
        if self.timers.len() + self.slots.holes() > self.timers.pages_held() * (PAGE + PAGE / 2) {
            self.fill_holes();
        }
    }

    #[cold]
    fn fill_holes(&mut self) {
        self.slots.sweep(|index, from, to| match self.timers.standing_at(index, from) {
            Some(mut timer) => {
                timer.set_position(to);
                true
            }
            None => false,
        });
    }

    /// Takes in what a timer put into a slot has changed there.
    #[inline(always)]
    fn note(&mut self, place: Place, change: Change) {
        match change {
            Change::Nothing => {}
            Change::Begun => self.note_begun(place),
            Change::Moved(moved) => self.note_moved(Some(moved)),
        }
    }

    /// A slot that was empty may be the next that the wheel comes to.
    #[inline]
    fn note_begun(&mut self, place: Place) {
        if let Some(start) = place.start(self.now)
            && start < self.quiet_until
            && self.now < start
        {
            (self.quiet_until, self.next) = (start, place.into());
        }
    }

    /// A timer was moved because it is not alone any more.
    #[inline(always)]
    fn note_moved(&mut self, moved: Option<Moved>) {
        if let Some(Moved { index, to }) = moved {
            self.timers.at(index).set_position(to);
        }
    }
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
