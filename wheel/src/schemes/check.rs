//! The slow code that checks the fast code: what must hold in every scheme, by looking at all of it.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use super::arena::{NIL, RETIRED};
use super::list::{List, ListNode};
use super::slots::Slots;
use super::timers::{Scheme, Timers};
use crate::Ring;

impl<S: Scheme, T> Timers<S, T> {
    /// Panics unless everything that must hold between two calls does.
    pub(crate) fn check(&self) {
        let mut used = vec![false; self.arena.nodes.len()];
        for index in self.scheme.check(&self.arena.nodes, self.now) {
            assert!(!used[index as usize], "node {index} is held once");
            used[index as usize] = true;
        }
        for (&index, late) in &self.late {
            let node = &self.arena.nodes[index as usize];
            assert_eq!(used[index as usize], !late.never, "node {index} is held if it can come out");
            assert!(late.never || late.deadline < node.due, "node {index} is late");
            used[index as usize] = true;
        }
        assert_eq!(self.arena.len, used.iter().filter(|&&used| used).count(), "every timer is held");
        let levels = self.scheme.levels();
        let occupancy = (0..levels).filter_map(|level| self.scheme.occupancy(level)).sum::<usize>();
        if levels > 1 {
            let never = self.late.values().filter(|late| late.never).count();
            assert_eq!(occupancy + never, self.arena.len, "every timer is in some part");
        }
        self.check_free(&used);
        self.check_rings();
    }

    /// Rings are no larger than they may be, and each has its hand in it.
    fn check_rings(&self) {
        let mut held = [u32::MAX; Ring::MOST_SLOTS];
        for number in 0.. {
            let Some(ring) = self.scheme.ring(self.now, number, &mut held) else { break };
            assert!(ring.hand < ring.slots && ring.slots <= Ring::MOST_SLOTS, "{ring:?}");
            assert!(held.iter().all(|held| *held <= 1), "slots are not counted");
            assert!(held[ring.slots..].iter().all(|held| *held == 0), "there are no more slots");
        }
    }

    /// The free list holds exactly the nodes that are not in use, except those that have run out of generations.
    fn check_free(&self, used: &[bool]) {
        let mut free = vec![false; used.len()];
        let mut index = self.arena.first_free;
        while index != NIL {
            assert!(!free[index as usize], "the free list is a circle");
            free[index as usize] = true;
            index = u32::try_from(self.arena.nodes[index as usize].due.0).expect("an index");
        }
        assert_eq!(self.arena.values.len(), used.len(), "one value a node");
        for (index, node) in self.arena.nodes.iter().enumerate() {
            assert_eq!(self.arena.values[index].is_some(), used[index], "node {index} has a value if used");
            assert_eq!(node.generation.get() % 2 == 1, used[index], "node {index} is odd if used");
            let retired = !used[index] && !free[index];
            assert!(!retired || node.generation == RETIRED, "node {index} is used, free or retired");
            assert!(!(free[index] && used[index]), "node {index} is free and used");
        }
    }
}

impl List {
    /// Follows the list and checks the links both ways. Returns its nodes.
    pub(super) fn check(self, nodes: &[ListNode]) -> Vec<u32> {
        let mut held: Vec<u32> = Vec::new();
        let mut index = self.first;
        while index != NIL {
            assert!(held.len() < nodes.len(), "the list is a circle");
            if let Some(&before) = held.last() {
                assert_eq!(
                    nodes[index as usize].link.previous, before,
                    "node {index} and the one before agree"
                );
            }
            held.push(index);
            index = nodes[index as usize].link.next;
        }
        if let Some(&last) = held.last() {
            assert_eq!(nodes[self.first as usize].link.previous, last, "the first knows the last");
        }
        held
    }

    /// Like [`check`](Self::check), for a list in the order of deadlines.
    pub(super) fn check_sorted(self, nodes: &[ListNode]) -> Vec<u32> {
        let held = self.check(nodes);
        assert!(held.is_sorted_by_key(|&index| nodes[index as usize].due), "the list is in order");
        held
    }
}

impl Slots {
    /// A slot's bit is set if its list is not empty, and its nodes know that they are in it. Returns every slot that is
    /// not empty, with its nodes.
    pub(super) fn check(&self, nodes: &[ListNode]) -> Vec<(usize, Vec<u32>)> {
        let mut slots = Vec::new();
        let occupied = (0..self.lists.len()).filter(|&slot| self.lists[slot].first != NIL);
        let bits: u32 = self.occupied.iter().map(|word| word.count_ones()).sum();
        for slot in occupied {
            assert!(self.occupied[slot / 64] >> (slot % 64) & 1 == 1, "bit of slot {slot}");
            let list = self.lists[slot];
            let held = list.check(nodes);
            for &index in &held {
                assert_eq!(nodes[index as usize].link.list as usize, slot, "node {index} knows its slot");
            }
            slots.push((slot, held));
        }
        assert_eq!(bits as usize, slots.len(), "no other bit is set");
        self.check_ring(&slots);
        slots
    }

    /// As a ring, a slot that holds anything is seen, and no other is.
    fn check_ring(&self, slots: &[(usize, Vec<u32>)]) {
        let mut held = [u32::MAX; Ring::MOST_SLOTS];
        let ring = self.ring(0, 0, 1, &mut held).expect("it is one");
        let together = usize::try_from(ring.slot_ticks).expect("few slots");
        let lit: BTreeSet<_> = slots.iter().map(|(slot, _)| slot / together).collect();
        let shown = (0..held.len()).filter(|slot| held[*slot] == 1);
        assert!(shown.eq(lit), "the slots that hold anything");
        assert_eq!(ring.slots, self.lists.len().div_ceil(together));
    }
}
