//! One owner of the wheel.

use core::fmt;
use core::ops::RangeInclusive;

use super::memory::{self, Record};
use super::place::Place;
use super::slots::Slots;
use super::state::State;
use crate::{Tick, TimerKey, range};

/// What [`Owners::expire_next`](crate::Owners::expire_next) came to.
#[derive(Debug)]
#[must_use]
pub enum Lent<'a, T, const K: usize> {
    /// A timer of this owner is due. There may be more.
    Due(Due<'a, T, K>),
    /// The budget is spent, and there is more to do. Nothing is lost: the next call goes on from here.
    OutOfWork,
    /// Every timer that was due has fired.
    UpToDate,
}

/// An owner of which a timer has fired.
#[derive(Debug)]
pub struct Due<'a, T, const K: usize> {
    /// Which of its timers.
    pub which: usize,
    /// When it was due, as it was armed. The wheel stands at this tick, or later if it was armed late.
    pub deadline: Tick,
    /// The owner, to arm its timers.
    pub owner: OwnerMut<'a, T, K>,
}

/// An owner, its value, and its timers, found once for all that is to be done with it.
pub struct OwnerMut<'a, T, const K: usize> {
    pub(super) slots: &'a mut Slots,
    pub(super) record: &'a mut Record<K>,
    pub(super) index: u32,
    pub(super) value: &'a mut T,
}

impl<'a, T, const K: usize> OwnerMut<'a, T, K> {
    /// The owner's value, for as long as the owner was lent.
    #[must_use]
    #[inline(always)]
    pub fn into_value(self) -> &'a mut T {
        self.value
    }

    /// The tick the wheel stands at.
    #[must_use]
    #[inline(always)]
    pub fn now(&self) -> Tick {
        self.slots.now
    }

    /// The owner's key.
    #[must_use]
    #[inline(always)]
    pub fn key(&self) -> TimerKey {
        TimerKey { index: self.index, generation: self.record.generation() }
    }

    /// The owner's value.
    #[must_use]
    #[inline(always)]
    pub fn value(&self) -> &T {
        self.value
    }

    /// The owner's value.
    #[must_use]
    #[inline(always)]
    pub fn value_mut(&mut self) -> &mut T {
        self.value
    }

    /// The deadline that a timer was armed with, even if it lies in the past. `None` if it is not armed.
    ///
    /// # Panics
    ///
    /// If `which` is not below `K`, as for all timers here.
    #[must_use]
    #[inline(always)]
    pub fn deadline(&self, which: usize) -> Option<Tick> {
        self.record.states[which].is_armed().then_some(self.record.deadlines[which])
    }

    /// Arms a timer, or gives it another deadline.
    ///
    /// A deadline that is not ahead of [`now`](Self::now) is due at the next tick. At [`Tick::MAX`] there is no next tick: what is
    /// armed then never fires.
    ///
    /// A timer that is put off stays where it is until the wheel comes to it, and moves then. So putting off costs next to nothing,
    /// however often, and so does disarming and arming again; and [`next_wakeup`](crate::Owners::next_wakeup) may name, once, the
    /// deadline that it had before.
    #[inline(always)]
    pub fn arm(&mut self, which: usize, deadline: Tick) {
        let entry = memory::entry::<K>(self.index, which);
        if self.record.states[which] == State::NOWHERE
            && let Some(place) = Place::near(self.slots.now, deadline)
        {
            self.record.deadlines[which] = deadline;
            self.record.states[which] = State::standing_in(place);
            self.slots.push_near(place, entry, deadline);
        } else {
            arm(self.slots, self.record, which, deadline, entry);
        }
    }

    /// Like [`arm`](Self::arm) with a deadline anywhere in `range`, so that the wheel can choose the cheapest. Does nothing if the
    /// timer is armed with one of these.
    ///
    /// The cheapest is the first tick of a slot, of the highest level that has one in the range; of several the
    /// latest. If the range lies between two multiples of 256, it is the tick divisible by the highest power
    /// of two. Either way timers with overlapping ranges tend to fire together.
    ///
    /// Of a range that is over, the end is the deadline. Of an empty range it is the start.
    #[inline(always)]
    pub fn arm_within(&mut self, which: usize, range: RangeInclusive<Tick>) {
        let is_armed = self.record.states[which].is_armed();
        if !(is_armed && range::includes(&range, self.record.deadlines[which])) {
            let entry = memory::entry::<K>(self.index, which);
            let (start, end) = range.into_inner();
            arm_somewhere(self.slots, self.record, which, start, end, entry);
        }
    }

    /// Disarms a timer. Returns whether it was armed.
    #[inline(always)]
    pub fn disarm(&mut self, which: usize) -> bool {
        let state = &mut self.record.states[which];
        let was_armed = state.is_armed();
        *state = state.disarmed();
        was_armed
    }
}

/// If there is an entry somewhere that counts, it will do unless the wheel comes to it too late.
#[inline(never)]
fn arm<const K: usize>(slots: &mut Slots, record: &mut Record<K>, which: usize, deadline: Tick, entry: u32) {
    let (state, old) = (&mut record.states[which], &mut record.deadlines[which]);
    let stays =
        deadline > slots.now && (state.is_armed() && deadline >= *old || comes_by(slots, *state, deadline));
    *old = deadline;
    if stays {
        *state = state.put_off();
        return;
    }
    let place = Place::of(slots.now, deadline);
    // What is late again and again stands where it belongs already: at the next tick.
    if !state.is_in(place) {
        let left_behind = usize::from(state.place().is_some());
        slots.holes += left_behind;
        slots.new_holes += left_behind;
        slots.push(place, entry);
    }
    *state = State::standing_in(place);
}

/// Whether the wheel comes to a timer's entry by then.
fn comes_by(slots: &Slots, state: State, deadline: Tick) -> bool {
    let start = state.place().and_then(|place| place.start(slots.now));
    start.is_some_and(|start| start <= deadline)
}

#[cold]
#[inline(never)]
fn arm_somewhere<const K: usize>(
    slots: &mut Slots,
    record: &mut Record<K>,
    which: usize,
    start: Tick,
    end: Tick,
    entry: u32,
) {
    let deadline = range::choose(slots.now, &(start..=end));
    arm(slots, record, which, deadline, entry);
}

impl<T: fmt::Debug, const K: usize> fmt::Debug for OwnerMut<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnerMut")
            .field("key", &self.key())
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}
