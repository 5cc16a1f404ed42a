//! The slow code that checks the fast code: every invariant of the wheel, by looking at all of it.

use super::TimingWheel;
use super::place::Place;
use crate::{Tick, TimerKey};

/// How many timers a page of memory has.
pub(crate) const PAGE: u64 = super::timers::PAGE as u64;

impl<T> TimingWheel<T> {
    /// Panics unless everything that must hold between two calls does.
    pub(crate) fn check_invariants(&self) {
        let found = self.slots.check(|index, position| self.timers.stands_at(index, position));
        self.timers.check(found.iter().map(|(index, _, position)| (*index, *position)));
        for (index, place, _) in found {
            self.check_place(index, place);
        }
        let event = self.next_event().map_or(Tick::MAX, |(tick, _)| tick);
        let all = 0..=u8::MAX;
        let slots =
            self.slots.levels().flat_map(|level| all.clone().map(move |slot| Place::new(level, slot)));
        let occupied = slots.filter(|place| !self.slots.is_empty(*place));
        assert_eq!(occupied.filter_map(|place| place.start(self.now)).min().unwrap_or(Tick::MAX), event);
        assert!(self.now <= self.quiet_until);
        assert!(self.quiet_until <= event, "quiet until {}, but {event} is something", self.quiet_until);
        if let Some(next) = self.next_if_known() {
            assert_eq!(next.start(self.now), Some(self.quiet_until), "of {next:?}");
            assert_eq!(self.quiet_until, event);
        }
        assert_eq!(self.len() + self.slots.holes(), self.occupancy().iter().sum::<usize>());
    }

    /// The wheel comes to a timer's slot before it is due.
    fn check_place(&self, index: u32, place: Place) {
        let deadline = self.timers.deadline_at(index);
        let ahead = place.slot().wrapping_sub(Place::current(self.now, place.level()).slot());
        let Some(start) = place.start(self.now) else {
            assert_eq!((self.now, place), (Tick::MAX, Place::new(0, 0)), "only after the end");
            return;
        };
        if ahead == 0 {
            assert_eq!(start, self.now, "{place:?} holds {deadline}, but the wheel went past at {start}");
        }
        if deadline < start {
            // It was late already when it was scheduled, and is due at the tick after that.
            assert!(place.level() == 0 && ahead <= 1, "{deadline} is late, but waits until {start}");
        }
    }

    pub(crate) fn last_generation(&mut self, key: TimerKey) -> TimerKey {
        self.timers.last_generation(key)
    }

    pub(crate) fn pages(&self) -> usize {
        self.timers.pages()
    }

    /// How many places hold nothing since their timers were cancelled or moved.
    pub(crate) fn holes(&self) -> usize {
        self.slots.holes()
    }
}
