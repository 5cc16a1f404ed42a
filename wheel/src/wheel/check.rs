//! Exhaustive checks of the wheel's invariants, for tests.

use alloc::vec::Vec;

use super::memory::ValueLayout;
use super::slot_id::SlotId;
use super::wheel_core::WheelCore;
use super::{Owners, TimingWheel};
use crate::{Tick, TimerKey};

pub(crate) const OWNERS_PER_PAGE: u64 = super::memory::OWNERS_PER_PAGE as u64;

impl<T, const K: usize> Owners<T, K> {
    pub(crate) fn check_invariants(&self) {
        self.wheel.check_invariants();
    }
}

impl<T, const K: usize, L: ValueLayout> WheelCore<T, K, L> {
    fn check_invariants(&self) {
        let found = self.slots.check();
        self.memory.check();
        let counting = found.iter().filter(|(entry, slot)| self.memory.state(*entry).has_entry_in(*slot));
        let mut timers: Vec<_> = counting.copied().collect();
        timers.sort_unstable_by_key(|(entry, slot)| (*entry, slot.index()));
        timers.dedup();
        assert_eq!(timers.len(), self.memory.timers_with_entry(), "every timer has one valid entry");
        assert_eq!(found.len(), timers.len() + self.slots.holes, "the other entries are holes");
        for (entry, slot) in timers {
            self.check_place(entry, slot);
        }
        let now = self.now();
        let event = self.slots.next_event().map_or(Tick::MAX, |(tick, _)| tick);
        let occupied = found.iter().filter_map(|(_, slot)| slot.start(now)).min().unwrap_or(Tick::MAX);
        assert!(
            event == occupied || event == now,
            "the next event is {event}, but a slot is occupied at {occupied}"
        );
        let quiet_until = self.slots.quiet_until;
        assert!(now <= quiet_until);
        assert!(now == quiet_until || quiet_until == event, "quiet until {quiet_until}, not {event}");
    }

    fn check_place(&self, entry: u32, slot: SlotId) {
        let ahead = slot.position().wrapping_sub(SlotId::current(self.now(), slot.level()).position());
        let Some(start) = slot.start(self.now()) else {
            assert_eq!((self.now(), slot), (Tick::MAX, SlotId::new(0, 0)), "only at the end of time");
            return;
        };
        if ahead == 0 {
            assert_eq!(start, self.now(), "{slot:?} is occupied, but the wheel passed it at {start}");
        }
        let Some(deadline) = self.memory.deadline_of(entry) else { return };
        if deadline < start {
            // The deadline had already passed when the timer was armed, so the timer is due at the tick after
            // that.
            assert!(slot.level() == 0 && ahead <= 1, "{deadline} is late, but waits until {start}");
        }
    }
}

impl<T> TimingWheel<T> {
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

    pub(crate) fn holes(&self) -> usize {
        self.timers.slots.holes
    }
}
