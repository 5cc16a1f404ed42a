//! How many entries slots have.

use super::{BITS, FULL, LEVEL_WORDS, LEVELS, Place, SLOTS, Slots};
use crate::Ring;

const _: () = assert!(SLOTS == Ring::MOST_SLOTS);

impl Slots {
    /// How many entries a level has.
    pub(in crate::wheel) fn len(&self, level: usize) -> usize {
        self.held(level).map(|(_, held)| held).sum()
    }

    /// A level as a ring: how many entries each slot has is written to `held`.
    pub(in crate::wheel) fn ring(&self, level: usize, held: &mut [u32; SLOTS]) -> Option<Ring> {
        let number = u8::try_from(level).ok().filter(|_| level < LEVELS)?;
        held.fill(0);
        for (slot, entries) in self.held(level) {
            held[slot] = u32::try_from(entries).unwrap_or(u32::MAX);
        }
        let hand = Place::current(self.now, number).slot().into();
        Some(Ring { slots: SLOTS, slot_ticks: 1 << (level * u8::BITS as usize), hand, counted: true })
    }

    /// The slots of a level that may have something, and how many entries they have. Only their lines are looked at.
    fn held(&self, level: usize) -> impl Iterator<Item = (usize, usize)> {
        let words = self.occupied[level * LEVEL_WORDS..][..LEVEL_WORDS].iter().enumerate();
        let slots = words.flat_map(|(word, bits)| ones(*bits).map(move |bit| word * BITS + bit));
        slots.map(move |slot| (slot, self.entries_of(level * SLOTS + slot)))
    }

    /// How many entries the slot of this number has.
    pub(super) fn entries_of(&self, number: usize) -> usize {
        self.lines[number].len() as usize + self.spilled_entries_of(number)
    }

    /// How many of them are in spilled lines.
    pub(super) fn spilled_entries_of(&self, number: usize) -> usize {
        self.spilled_lines[number] as usize * FULL as usize
    }
}

/// Which bits are set.
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let first = bits.trailing_zeros() as usize;
        (bits != 0).then(|| {
            bits &= bits - 1;
            first
        })
    })
}
