//! One level of the wheel: 256 slots, each a list of timers, and a bitmap of those that are not empty.

use crate::arena::{NIL, Node};
use crate::place::{Place, SLOTS};

const WORDS: usize = SLOTS / u64::BITS as usize;

/// The lists are doubly linked through the nodes, newest first. The level holds where each begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) first: [u32; SLOTS],
    /// One bit a slot, set if the slot's list is not empty.
    pub(crate) occupied: [u64; WORDS],
    /// How many timers the level holds.
    pub(crate) len: usize,
}

impl Level {
    pub(crate) const EMPTY: Level = Level { first: [NIL; SLOTS], occupied: [0; WORDS], len: 0 };

    /// Puts a node that is in no list into that of `place`, a slot of this level.
    pub(crate) fn link(&mut self, nodes: &mut [Node], index: u32, place: Place) {
        let first = &mut self.first[usize::from(place.slot)];
        let node = &mut nodes[index as usize];
        debug_assert!(node.place.is_none(), "a node is in one list at most");
        node.place = Some(place);
        node.previous = NIL;
        node.next = *first;
        if *first != NIL {
            nodes[*first as usize].previous = index;
        }
        *first = index;
        self.occupied[word(place.slot)] |= bit(place.slot);
        self.len += 1;
    }

    /// Takes a node out of the list of `slot`, which it is in.
    pub(crate) fn unlink(&mut self, nodes: &mut [Node], index: u32, slot: u8) {
        let node = &mut nodes[index as usize];
        let (next, previous) = (node.next, node.previous);
        node.place = None;
        if next != NIL {
            nodes[next as usize].previous = previous;
        }
        if previous != NIL {
            nodes[previous as usize].next = next;
        } else {
            self.first[usize::from(slot)] = next;
            if next == NIL {
                self.occupied[word(slot)] &= !bit(slot);
            }
        }
        self.len -= 1;
    }

    /// The first slot with timers in it, going once around from `slot`, which counts as the nearest.
    pub(crate) fn next_occupied(&self, slot: u8) -> Option<u8> {
        let (start, offset) = (word(slot), u32::from(slot) % u64::BITS);
        // The word we begin with comes up again at the end, for the slots before `slot`.
        (0..=WORDS).find_map(|step| {
            let word = (start + step) % WORDS;
            let mask = if step == 0 { u64::MAX << offset } else { u64::MAX };
            let bits = self.occupied[word] & mask;
            let slot = word * u64::BITS as usize + bits.trailing_zeros() as usize;
            (bits != 0).then(|| u8::try_from(slot).expect("a level has 256 slots"))
        })
    }
}

fn word(slot: u8) -> usize {
    usize::from(slot) / u64::BITS as usize
}

fn bit(slot: u8) -> u64 {
    1 << (u32::from(slot) % u64::BITS)
}
