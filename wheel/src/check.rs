//! The slow code that checks the fast code: every invariant of the wheel, by looking at all of it.

use alloc::vec;
use alloc::vec::Vec;

use crate::arena::NIL;
use crate::level::Level;
use crate::place::Place;
use crate::{Tick, TimingWheel};

impl<T> TimingWheel<T> {
    /// Panics unless everything that must hold between two calls does.
    pub(crate) fn check_invariants(&self) {
        let mut linked = vec![false; self.arena.nodes.len()];
        for (number, level) in (0..).zip(self.levels.iter()) {
            if level.len == 0 {
                assert_eq!(*level, Level::EMPTY, "level {number}");
                continue;
            }
            let before = count(&linked);
            for slot in self.check_bitmap(number) {
                for index in self.check_list(Place { level: number, slot }) {
                    assert!(!linked[index as usize], "node {index} is in one list only");
                    linked[index as usize] = true;
                    self.check_place(index);
                }
            }
            assert_eq!(level.len, count(&linked) - before, "length of level {number}");
        }
        assert_eq!(self.arena.len, count(&linked), "every timer is in a list");
        assert_eq!(self.arena.len, self.occupancy().iter().sum());
        self.check_free(&linked);
    }

    /// A slot's bit is set if its list is not empty. Returns those slots.
    fn check_bitmap(&self, number: u8) -> Vec<u8> {
        let level = &self.levels[usize::from(number)];
        let mut slots = Vec::new();
        for (word, first) in (0_u8..).zip(level.first.chunks(64)) {
            let bits = level.occupied[usize::from(word)];
            if bits == 0 {
                assert_eq!(first, [NIL; 64], "level {number}, from slot {word} * 64");
                continue;
            }
            for (bit, &first) in (0..64).zip(first) {
                let slot = word * 64 + bit;
                assert_eq!(bits >> bit & 1 == 1, first != NIL, "level {number}, slot {slot}");
                if first != NIL {
                    slots.push(slot);
                }
            }
        }
        slots
    }

    /// Follows the list of a slot and checks the links both ways.
    fn check_list(&self, place: Place) -> Vec<u32> {
        let mut list = Vec::new();
        let mut previous = NIL;
        let mut index = self.levels[usize::from(place.level)].first[usize::from(place.slot)];
        while index != NIL {
            assert!(list.len() < self.arena.nodes.len(), "the list of {place:?} is a circle");
            let node = &self.arena.nodes[index as usize];
            assert_eq!(node.previous, previous, "node {index} and the one before it agree");
            assert_eq!(node.place, Some(place), "node {index} knows its slot");
            assert!(self.arena.values[index as usize].is_some(), "node {index} has a value");
            list.push(index);
            (previous, index) = (index, node.next);
        }
        list
    }

    /// A timer's slot is one that its deadline demands, now or when it was put there.
    fn check_place(&self, index: u32) {
        let node = &self.arena.nodes[index as usize];
        let (deadline, place) = (node.deadline, node.place.expect("it is in a list"));
        let ahead = place.slot.wrapping_sub(Place::current(self.now, place.level).slot);
        let Some(start) = place.start(self.now) else {
            assert_eq!((self.now, place), (Tick::MAX, Place { level: 0, slot: 0 }), "only after the end");
            return;
        };
        let shift = u32::from(place.level) * 8;
        if ahead == 0 {
            assert_eq!(start, self.now, "{place:?} holds {deadline}, but the wheel went past at {start}");
        }
        if deadline.0 >> shift != start.0 >> shift {
            // It was late already when it was scheduled, and is due at the tick after that.
            assert!(deadline < start && place.level == 0, "{deadline} is not in {place:?}, from {start}");
            assert!(ahead <= 1, "{deadline} is late, but waits until {start}");
        }
        let lowest = Place::of(self.now, deadline).level;
        assert!(ahead == 0 || place.level >= lowest, "{deadline} is on level {} below {lowest}", place.level);
    }

    /// The free list holds exactly the nodes that are in no slot, except those that have run out of
    /// generations.
    fn check_free(&self, linked: &[bool]) {
        let mut free = vec![false; linked.len()];
        let mut index = self.arena.first_free;
        while index != NIL {
            assert!(!free[index as usize], "the free list is a circle");
            free[index as usize] = true;
            index = self.arena.nodes[index as usize].next;
        }
        assert_eq!(self.arena.values.len(), linked.len(), "one value a node");
        for (index, node) in self.arena.nodes.iter().enumerate() {
            assert_eq!(node.place.is_some(), linked[index], "node {index} knows whether it is linked");
            let has_value = self.arena.values[index].is_some();
            assert_eq!(has_value, linked[index], "node {index} has a value if linked");
            let retired = !linked[index] && node.generation.get() == u32::MAX && !free[index];
            assert_eq!(free[index], !linked[index] && !retired, "node {index} is linked, free or retired");
        }
    }
}

fn count(linked: &[bool]) -> usize {
    linked.iter().filter(|&&linked| linked).count()
}
