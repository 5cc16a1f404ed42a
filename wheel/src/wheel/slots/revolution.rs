use super::{BITS, EntryLine, SLOTS_PER_LEVEL, SlotId, Slots, WORDS_PER_LEVEL};
use crate::wheel::line::LINE_CAPACITY;
use crate::wheel::memory::prefetch;

impl Slots {
    /// Returns whether a slot of level 1 has entries, and no more than `most` together with all slots of
    /// level 0. Returns `false` while the slot is being swept, because some of its lines are then not linked
    /// to it.
    #[inline(always)]
    pub(in crate::wheel) fn revolution_has_at_most(&self, second: SlotId, most: u64) -> bool {
        let line = self.line(second);
        if line.is_empty() || self.sweep.is_in_progress_in(second) {
            return false;
        }
        let spilled = self.spilled_entries_of_level_0() + self.spilled_entries_of(second.index());
        let at_most = spilled as u64 + (SLOTS_PER_LEVEL as u64 + 1) * u64::from(LINE_CAPACITY);
        at_most <= most || self.count_revolution(second, most)
    }

    #[inline(always)]
    fn spilled_entries_of_level_0(&self) -> usize {
        // Return early, because level 0 is usually empty where a revolution begins.
        if self.occupied[..WORDS_PER_LEVEL].iter().all(|word| *word == 0) {
            return 0;
        }
        self.spilled_lines[..SLOTS_PER_LEVEL].iter().sum::<u32>() as usize * LINE_CAPACITY as usize
    }

    #[inline(never)]
    fn count_revolution(&self, second: SlotId, most: u64) -> bool {
        let count = self.len(0) + self.entries_of(second.index());
        count as u64 <= most
    }

    pub(in crate::wheel) fn first_occupied_of_level_0(&self) -> Option<SlotId> {
        let words = &self.occupied[..WORDS_PER_LEVEL];
        let at = words.iter().position(|bits| *bits != 0)?;
        Some(SlotId::from_index(at * BITS + words[at].trailing_zeros() as usize))
    }

    /// Returns a copy of a slot's second line, or an empty line. Prefetches the third line.
    #[inline(always)]
    pub(in crate::wheel) fn second_line(&self, slot: SlotId) -> EntryLine {
        let second = self.spilled_line(self.line(slot).next());
        if let Some(third) = second.and_then(|second| self.spilled_line(second.next())) {
            prefetch(third);
        }
        second.copied().unwrap_or(EntryLine::EMPTY)
    }
}
