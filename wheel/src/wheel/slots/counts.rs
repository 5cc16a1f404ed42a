use super::{BITS, LEVELS, LINE_CAPACITY, SLOTS_PER_LEVEL, SlotId, Slots, WORDS_PER_LEVEL};
use crate::SlotRing;

const _: () = assert!(SLOTS_PER_LEVEL == SlotRing::MAX_SLOTS);

impl Slots {
    pub(in crate::wheel) fn len(&self, level: usize) -> usize {
        self.entry_counts(level).map(|(_, entries)| entries).sum()
    }

    pub(in crate::wheel) fn ring(
        &self,
        level: usize,
        counts: &mut [u32; SLOTS_PER_LEVEL],
    ) -> Option<SlotRing> {
        let number = u8::try_from(level).ok().filter(|_| level < LEVELS)?;
        counts.fill(0);
        for (slot, entries) in self.entry_counts(level) {
            counts[slot] = u32::try_from(entries).unwrap_or(u32::MAX);
        }
        let hand = SlotId::current(self.now, number).position().into();
        Some(SlotRing {
            slots: SLOTS_PER_LEVEL,
            slot_ticks: 1 << (level * u8::BITS as usize),
            hand,
            has_counts: true,
        })
    }

    /// Iterates over the slots of a level whose bit is set, with the number of entries in each. Does not read
    /// the spilled lines.
    fn entry_counts(&self, level: usize) -> impl Iterator<Item = (usize, usize)> {
        let words = self.occupied[level * WORDS_PER_LEVEL..][..WORDS_PER_LEVEL].iter().enumerate();
        let slots = words.flat_map(|(word, bits)| ones(*bits).map(move |bit| word * BITS + bit));
        slots.map(move |slot| (slot, self.entries_of(level * SLOTS_PER_LEVEL + slot)))
    }

    pub(super) fn entries_of(&self, number: usize) -> usize {
        self.lines[number].len() as usize + self.spilled_entries_of(number)
    }

    pub(super) fn spilled_entries_of(&self, number: usize) -> usize {
        self.spilled_lines[number] as usize * LINE_CAPACITY as usize
    }
}

fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let first = bits.trailing_zeros() as usize;
        (bits != 0).then(|| {
            bits &= bits - 1;
            first
        })
    })
}
