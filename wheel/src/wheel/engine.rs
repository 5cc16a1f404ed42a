//! What every wheel here is made of.

use super::drive::Outcome;
use super::memory::{Layout, Owners};
use super::owner::{Due, Lent, OwnerMut};
use super::slots::Slots;
use super::state::State;
use crate::{Expire, Expired, Tick, TimerKey};

/// Owners with `K` timers each, and the slots in which these stand. What the calls promise is said where they are public:
/// [`Owners`](crate::Owners), and [`TimingWheel`](crate::TimingWheel), of which each has the memory that suits it.
pub(super) struct Wheel<T, const K: usize, L: Layout> {
    pub(super) slots: Slots,
    pub(super) memory: Owners<T, K, L>,
}

impl<T, const K: usize, L: Layout> Wheel<T, K, L> {
    pub(super) fn new(now: Tick) -> Self {
        Wheel { slots: Slots::new(now), memory: Owners::new() }
    }

    #[inline(always)]
    pub(super) fn now(&self) -> Tick {
        self.slots.now
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.memory.len()
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, value: T) -> OwnerMut<'_, T, K> {
        self.keep_holes_few();
        let (index, record, value) = self.memory.insert(value);
        OwnerMut { slots: &mut self.slots, record, index, value }
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, key: TimerKey) -> Option<T> {
        let (value, left_behind) = self.memory.remove(key)?;
        self.slots.holes += left_behind;
        self.keep_holes_few();
        Some(value)
    }

    #[inline(always)]
    pub(super) fn get(&self, key: TimerKey) -> Option<&T> {
        self.memory.find(key).map(|(_, value)| value)
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, key: TimerKey) -> Option<OwnerMut<'_, T, K>> {
        self.keep_holes_few();
        let (record, value) = self.memory.find_mut(key)?;
        Some(OwnerMut { slots: &mut self.slots, record, index: key.index, value })
    }

    #[inline(always)]
    pub(super) fn deadline(&self, key: TimerKey, which: usize) -> Option<Tick> {
        let (record, _) = self.memory.find(key)?;
        record.states[which].is_armed().then_some(record.deadlines[which])
    }

    #[inline(always)]
    pub(super) fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        let quiet_until = self.slots.quiet_until;
        if at_most.max(self.now()) < quiet_until {
            return None;
        }
        if self.now() < quiet_until && quiet_until < Tick::MAX {
            return Some(quiet_until);
        }
        let mut next = self.slots.next_event();
        if next.is_some_and(|(_, place)| self.slots.line(place).is_empty()) {
            next = self.slots.next_event_of_something();
        }
        next.map(|(tick, _)| tick).filter(|tick| *tick <= at_most.max(self.now()))
    }

    /// Every hole is one more word in a line. They may be half as many as there is room for timers; beyond that, whatever adds
    /// to them or takes a page away looks for some. What is lent can leave some as well: they are looked for whenever the wheel comes to
    /// another line of a slot, or to slots further ahead. Lines need not shrink before the owners' own memory can.
    #[inline(always)]
    pub(super) fn keep_holes_few(&mut self) {
        if self.slots.holes > self.memory.most_holes() {
            self.look_for_holes();
        }
    }

    /// A line for each of an owner's timers, or for each hole that arming has left since the last time. Those from when there were few
    /// do not count: nobody pays for all of them at once.
    #[cold]
    #[inline(never)]
    fn look_for_holes(&mut self) {
        let too_many = self.slots.holes - self.memory.most_holes();
        let lines = core::mem::take(&mut self.slots.new_holes).min(too_many).max(K);
        for _ in 0..lines {
            self.slots.sweep(|entry, place, marks| {
                let (_, state) = self.memory.timer(entry);
                let counts = state.is_in(place) && !(marks && state.is_marked());
                if counts {
                    *state = state.marked(marks);
                }
                counts
            });
            if self.slots.holes <= self.memory.most_holes() {
                break;
            }
        }
    }
}

impl<T, L: Layout> Wheel<T, 1, L> {
    /// Takes out the owner of a timer that is due.
    #[inline(always)]
    pub(super) fn expire(&mut self, entry: u32) -> Expired<T> {
        let (key, deadline, value, left_behind) = self.memory.expire(entry);
        self.slots.holes += left_behind;
        self.keep_holes_few();
        Expired { key, deadline, value }
    }
}

/// The owner is lent.
impl<'a, T, const K: usize, L: Layout> Outcome<'a, Wheel<T, K, L>> for Lent<'a, T, K> {
    #[inline(always)]
    fn due(wheel: &'a mut Wheel<T, K, L>, entry: u32) -> Self {
        let (index, which, record, value) = wheel.memory.owner(entry);
        record.states[which] = State::NOWHERE;
        let deadline = record.deadlines[which];
        let owner = OwnerMut { slots: &mut wheel.slots, record, index, value };
        Lent::Due(Due { which, deadline, owner })
    }

    #[inline(always)]
    fn out_of_work() -> Self {
        Lent::OutOfWork
    }

    #[inline(always)]
    fn up_to_date() -> Self {
        Lent::UpToDate
    }
}

/// The owner is taken out.
impl<T, L: Layout> Outcome<'_, Wheel<T, 1, L>> for Expire<T> {
    #[inline(always)]
    fn due(wheel: &mut Wheel<T, 1, L>, entry: u32) -> Self {
        Expire::Due(wheel.expire(entry))
    }

    #[inline(always)]
    fn out_of_work() -> Self {
        Expire::OutOfWork
    }

    #[inline(always)]
    fn up_to_date() -> Self {
        Expire::UpToDate
    }
}
