//! The array of a wheel: one list per slot, and a bitmap of the occupied slots.
//!
//! ```text
//!    occupied      0      1      0      0      1      0      0      1       64 slots per word
//!    lists      [ NIL] [ 17 ] [ NIL] [ NIL] [  3 ] [ NIL] [ NIL] [ 80 ]
//!                         |                    |                    |
//!                         v                    v                    v
//!                      node 17               node 3              node 80 ...
//! ```
//!
//! | | |
//! |---|---|
//! | source | Varghese & Lauck 1997, figures 5 and 6; the bitmap is taken from the chip in their appendix A |
//! | costs | O(1) to add a node to a slot and to remove it; the search for the next occupied slot reads 64 at a time |
//! | memory | 4 bytes and one bit per slot, empty or not |
//! | limits | 1 to 2^31 slots |

use alloc::boxed::Box;
use alloc::vec;

use super::list::{List, ListNode};
use crate::{SlotRing, Tick};

#[derive(Debug)]
pub(super) struct Slots {
    pub(super) lists: Box<[List]>,
    /// One bit per slot, set if the slot's list is not empty, as in the chip of V&L's appendix A, so that
    /// empty slots need not be visited.
    pub(super) occupied: Box<[u64]>,
}

impl Slots {
    /// # Panics
    ///
    /// Panics if `slots` is 0 or more than 2^31.
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

    pub(super) fn unlink(&mut self, nodes: &mut [ListNode], index: u32) {
        let slot = nodes[index as usize].link.list as usize;
        self.lists[slot].unlink(nodes, index);
        if self.lists[slot].is_empty() {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
    }

    /// Returns the slot of a tick, given by its low bits. The number of slots must be a power of two.
    pub(super) fn hash(&self, tick: Tick) -> usize {
        let mask = self.lists.len() as u64 - 1;
        usize::try_from(tick.0 & mask).expect("below the number of slots")
    }

    /// Describes all slots, each of `width` ticks, as the only ring of a scheme.
    pub(super) fn ring(
        &self,
        ring: usize,
        hand: usize,
        width: u64,
        counts: &mut [u32; SlotRing::MAX_SLOTS],
    ) -> Option<SlotRing> {
        (ring == 0).then(|| SlotRing::from_bitmap(&self.occupied, self.lists.len(), width, hand, counts))
    }

    /// Returns the first occupied slot, searching one revolution that starts at `slot` itself.
    pub(super) fn next_occupied(&self, slot: usize) -> Option<usize> {
        next_bit(&self.occupied, slot)
    }

    /// Returns the distance from `slot` to the next occupied slot, from 1 to a whole revolution.
    pub(super) fn ahead_to_occupied(&self, slot: usize) -> Option<usize> {
        let len = self.lists.len();
        let from = if slot + 1 == len { 0 } else { slot + 1 };
        let found = self.next_occupied(from)?;
        Some(if found > slot { found - slot } else { found + len - slot })
    }
}

/// Returns the first bit that is set, searching from bit `from` and wrapping around.
pub(super) fn next_bit(words: &[u64], from: usize) -> Option<usize> {
    let (start, offset) = (from / 64, from % 64);
    // Visit the starting word again at the end, for the bits before `from`.
    (start..words.len()).chain(0..=start).enumerate().find_map(|(step, word)| {
        let mask = if step == 0 { u64::MAX << offset } else { u64::MAX };
        let bits = words[word] & mask;
        (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
    })
}
