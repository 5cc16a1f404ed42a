//! The slow code that checks the fast code: every invariant of the wheel, by looking at all of it.

use alloc::vec::Vec;

use super::engine::Wheel;
use super::memory::Layout;
use super::place::Place;
use super::{Owners, TimingWheel};
use crate::{Tick, TimerKey};

/// How many owners a page of memory has.
pub(crate) const PAGE: u64 = super::memory::PAGE as u64;

impl<T, const K: usize> Owners<T, K> {
    /// Panics unless everything that must hold between two calls does.
    pub(crate) fn check_invariants(&self) {
        self.wheel.check_invariants();
    }
}

impl<T, const K: usize, L: Layout> Wheel<T, K, L> {
    fn check_invariants(&self) {
        let found = self.slots.check();
        self.memory.check();
        let counting = found.iter().filter(|(entry, place)| self.memory.state(*entry).is_in(*place));
        let mut timers: Vec<_> = counting.copied().collect();
        timers.sort_unstable_by_key(|(entry, place)| (*entry, place.number()));
        timers.dedup();
        assert_eq!(timers.len(), self.memory.standing(), "every timer is in the slot that it says");
        assert_eq!(found.len(), timers.len() + self.slots.holes, "and the others are holes");
        for (entry, place) in timers {
            self.check_place(entry, place);
        }
        let now = self.now();
        let event = self.slots.next_event().map_or(Tick::MAX, |(tick, _)| tick);
        let occupied = found.iter().filter_map(|(_, place)| place.start(now)).min().unwrap_or(Tick::MAX);
        assert!(event == occupied || event == now, "next is {event}, but there is something at {occupied}");
        let quiet_until = self.slots.quiet_until;
        assert!(now <= quiet_until);
        assert!(now == quiet_until || quiet_until == event, "quiet until {quiet_until}, not {event}");
    }

    /// The wheel comes to a timer's slot before it is due.
    fn check_place(&self, entry: u32, place: Place) {
        let ahead = place.slot().wrapping_sub(Place::current(self.now(), place.level()).slot());
        let Some(start) = place.start(self.now()) else {
            assert_eq!((self.now(), place), (Tick::MAX, Place::new(0, 0)), "only after the end");
            return;
        };
        if ahead == 0 {
            assert_eq!(start, self.now(), "{place:?} holds something, but the wheel went past at {start}");
        }
        let Some(deadline) = self.memory.deadline_of(entry) else { return };
        if deadline < start {
            // It was late already when it was armed, and is due at the tick after that.
            assert!(place.level() == 0 && ahead <= 1, "{deadline} is late, but waits until {start}");
        }
    }
}

impl<T> TimingWheel<T> {
    /// Panics unless everything that must hold between two calls does.
    pub(crate) fn check_invariants(&self) {
        self.timers.check_invariants();
        assert_eq!(self.len(), self.timers.memory.armed(), "every timer is armed");
    }

    pub(crate) fn last_generation(&mut self, key: TimerKey) -> TimerKey {
        self.timers.memory.last_generation(key)
    }

    pub(crate) fn pages(&self) -> usize {
        self.timers.memory.pages()
    }

    /// How many entries do not count since their timers were cancelled or moved.
    pub(crate) fn holes(&self) -> usize {
        self.timers.slots.holes
    }
}
