//! Many lists and a bitmap of those that are not empty: the array of a wheel.
//!
//! ```text
//!    occupied      0      1      0      0      1      0      0      1       64 slots a word
//!    lists      [ NIL] [ 17 ] [ NIL] [ NIL] [  3 ] [ NIL] [ NIL] [ 80 ]
//!                         |                    |                    |
//!                         v                    v                    v
//!                      node 17               node 3              node 80 ...
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, figures 5 and 6; the bits are what the chip of their appendix A keeps |
//! | costs | O(1) to put a node into a slot and to take it out; finding the next slot that is not empty reads 64 at a time |
//! | memory | 4 bytes and a bit a slot, whether it is empty or not |
//! | limits | 1 to 2^31 slots |

use alloc::boxed::Box;
use alloc::vec;

use super::list::{List, ListNode};
use crate::{Ring, Tick};

#[derive(Debug)]
pub(super) struct Slots {
    pub(super) lists: Box<[List]>,
    /// One bit a slot, set if the slot's list is not empty: what the chip of V&L's appendix A keeps, so that whoever
    /// drives the wheel need not look at empty slots.
    pub(super) occupied: Box<[u64]>,
}

impl Slots {
    /// # Panics
    ///
    /// If there are no slots, or more than 2^31.
    pub(super) fn new(slots: usize) -> Self {
        assert!((1..=1 << 31).contains(&slots), "a wheel has at least one slot, and at most 2^31");
        Slots {
            lists: vec![List::EMPTY; slots].into(),
            occupied: vec![0; slots.div_ceil(u64::BITS as usize)].into(),
        }
    }

    pub(super) fn push_front(&mut self, nodes: &mut [ListNode], slot: usize, index: u32) {
        self.enter(nodes, slot, index);
        self.lists[slot].push_front(nodes, index);
    }

    pub(super) fn push_back(&mut self, nodes: &mut [ListNode], slot: usize, index: u32) {
        self.enter(nodes, slot, index);
        self.lists[slot].push_back(nodes, index);
    }

    pub(super) fn insert_sorted(&mut self, nodes: &mut [ListNode], slot: usize, index: u32) {
        self.enter(nodes, slot, index);
        self.lists[slot].insert_sorted(nodes, index);
    }

    fn enter(&mut self, nodes: &mut [ListNode], slot: usize, index: u32) {
        nodes[index as usize].link.list = u32::try_from(slot).expect("at most 2^31 slots");
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Takes a node out of the slot it is in.
    pub(super) fn unlink(&mut self, nodes: &mut [ListNode], index: u32) {
        let slot = nodes[index as usize].link.list as usize;
        self.lists[slot].unlink(nodes, index);
        if self.lists[slot].is_empty() {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// The slot of a tick, if their number is a power of two: the tick's low bits.
    pub(super) fn hash(&self, tick: Tick) -> usize {
        let mask = self.lists.len() as u64 - 1;
        usize::try_from(tick.0 & mask).expect("less than the slots")
    }

    /// All slots, of `width` ticks each, as the only ring that a scheme has.
    pub(super) fn ring(
        &self,
        ring: usize,
        hand: usize,
        width: u64,
        held: &mut [u32; Ring::MOST_SLOTS],
    ) -> Option<Ring> {
        (ring == 0).then(|| Ring::of_bits(&self.occupied, self.lists.len(), width, hand, held))
    }

    /// The first slot with timers in it, going once around from `slot`, which counts as the nearest.
    pub(super) fn next_occupied(&self, slot: usize) -> Option<usize> {
        next_bit(&self.occupied, slot)
    }

    /// How many slots ahead of `slot` the first with timers is, from 1 to a whole turn.
    pub(super) fn ahead_to_occupied(&self, slot: usize) -> Option<usize> {
        let len = self.lists.len();
        let from = if slot + 1 == len { 0 } else { slot + 1 };
        let found = self.next_occupied(from)?;
        Some(if found > slot { found - slot } else { found + len - slot })
    }
}

/// The first bit that is set, going once around from bit `from`.
pub(super) fn next_bit(words: &[u64], from: usize) -> Option<usize> {
    let (start, offset) = (from / 64, from % 64);
    // The word we begin with comes up again at the end, for the bits before `from`.
    (start..words.len()).chain(0..=start).enumerate().find_map(|(step, word)| {
        let mask = if step == 0 { u64::MAX << offset } else { u64::MAX };
        let bits = words[word] & mask;
        (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
    })
}
