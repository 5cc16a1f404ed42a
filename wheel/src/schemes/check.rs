//! Exhaustive checks of the schemes' invariants, for tests.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use super::arena::{NIL, RETIRED};
use super::list::{List, ListNode};
use super::slots::Slots;
use super::timers::{SchemeTimers, TimerScheme};
use crate::SlotRing;

impl<S: TimerScheme, T> SchemeTimers<S, T> {
    pub(crate) fn check(&self) {
        let mut used = vec![false; self.arena.nodes.len()];
        for index in self.scheme.check(&self.arena.nodes, self.now) {
            assert!(!used[index as usize], "node {index} is linked twice");
            used[index as usize] = true;
        }
        for (&index, late) in &self.late {
            let node = &self.arena.nodes[index as usize];
            assert_eq!(used[index as usize], !late.never_due, "node {index} is linked iff it can expire");
            assert!(late.never_due || late.deadline < node.due, "node {index} is late");
            used[index as usize] = true;
        }
        assert_eq!(self.arena.len, used.iter().filter(|&&used| used).count(), "a timer is not linked");
        let levels = self.scheme.levels();
        let occupancy = (0..levels).filter_map(|level| self.scheme.occupancy(level)).sum::<usize>();
        if levels > 1 {
            let never_due = self.late.values().filter(|late| late.never_due).count();
            assert_eq!(occupancy + never_due, self.arena.len, "the parts do not add up");
        }
        self.check_free(&used);
        self.check_rings();
    }

    fn check_rings(&self) {
        let mut held = [u32::MAX; SlotRing::MAX_SLOTS];
        for number in 0.. {
            let Some(ring) = self.scheme.ring(self.now, number, &mut held) else { break };
            assert!(ring.hand < ring.slots && ring.slots <= SlotRing::MAX_SLOTS, "{ring:?}");
            assert!(held.iter().all(|held| *held <= 1), "the slots have no counts");
            assert!(held[ring.slots..].iter().all(|held| *held == 0), "a slot beyond the last is occupied");
        }
    }

    /// Checks that the free list holds all nodes that are neither in use nor retired, and no others.
    fn check_free(&self, used: &[bool]) {
        let mut free = vec![false; used.len()];
        let mut index = self.arena.first_free;
        while index != NIL {
            assert!(!free[index as usize], "the free list has a cycle");
            free[index as usize] = true;
            index = u32::try_from(self.arena.nodes[index as usize].due.0).expect("an index");
        }
        assert_eq!(self.arena.values.len(), used.len(), "one value per node");
        for (index, node) in self.arena.nodes.iter().enumerate() {
            assert_eq!(self.arena.values[index].is_some(), used[index], "node {index} has a value if used");
            assert_eq!(node.generation.get() % 2 == 1, used[index], "node {index} has the wrong parity");
            let retired = !used[index] && !free[index];
            assert!(!retired || node.generation == RETIRED, "node {index} is used, free or retired");
            assert!(!(free[index] && used[index]), "node {index} is free and used");
        }
    }
}

impl List {
    pub(super) fn check(self, nodes: &[ListNode]) -> Vec<u32> {
        let mut held: Vec<u32> = Vec::new();
        let mut index = self.first;
        while index != NIL {
            assert!(held.len() < nodes.len(), "the list has a cycle");
            if let Some(&before) = held.last() {
                assert_eq!(
                    nodes[index as usize].link.previous, before,
                    "node {index} and its predecessor disagree"
                );
            }
            held.push(index);
            index = nodes[index as usize].link.next;
        }
        if let Some(&last) = held.last() {
            assert_eq!(
                nodes[self.first as usize].link.previous, last,
                "the first node does not link to the last"
            );
        }
        held
    }

    pub(super) fn check_sorted(self, nodes: &[ListNode]) -> Vec<u32> {
        let held = self.check(nodes);
        assert!(held.is_sorted_by_key(|&index| nodes[index as usize].due), "the list is not in order");
        held
    }
}

impl Slots {
    /// Checks that the bitmap agrees with the lists and that each node knows its slot. Returns the occupied
    /// slots with their nodes.
    pub(super) fn check(&self, nodes: &[ListNode]) -> Vec<(usize, Vec<u32>)> {
        let mut slots = Vec::new();
        let occupied = (0..self.lists.len()).filter(|&slot| self.lists[slot].first != NIL);
        let bits: u32 = self.occupied.iter().map(|word| word.count_ones()).sum();
        for slot in occupied {
            assert!(self.occupied[slot / 64] >> (slot % 64) & 1 == 1, "bit of slot {slot}");
            let list = self.lists[slot];
            let held = list.check(nodes);
            for &index in &held {
                assert_eq!(nodes[index as usize].link.list as usize, slot, "node {index} has the wrong slot");
            }
            slots.push((slot, held));
        }
        assert_eq!(bits as usize, slots.len(), "no other bit is set");
        self.check_ring(&slots);
        slots
    }

    fn check_ring(&self, slots: &[(usize, Vec<u32>)]) {
        let mut held = [u32::MAX; SlotRing::MAX_SLOTS];
        let ring = self.ring(0, 0, 1, &mut held).expect("a ring");
        let together = usize::try_from(ring.slot_ticks).expect("few slots");
        let occupied_slots: BTreeSet<_> = slots.iter().map(|(slot, _)| slot / together).collect();
        let shown = (0..held.len()).filter(|slot| held[*slot] == 1);
        assert!(shown.eq(occupied_slots), "the ring disagrees with the bitmap");
        assert_eq!(ring.slots, self.lists.len().div_ceil(together));
    }
}
