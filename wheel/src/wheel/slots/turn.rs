//! What a whole turn of the first level has.

use super::{BITS, LEVEL_WORDS, Line, Place, SLOTS, Slots};
use crate::wheel::line::FULL;
use crate::wheel::memory::prefetch;

impl Slots {
    /// Whether a slot of the second level has something, and with all of the first no more than `most` entries. `false` as well while it
    /// is being swept: some of its lines are elsewhere then.
    #[inline(always)]
    pub(in crate::wheel) fn turn_has_at_most(&self, second: Place, most: u64) -> bool {
        let line = self.line(second);
        if line.is_empty() || self.sweep.is_at_work_in(second) {
            return false;
        }
        let spilled = self.spilled_of_first_level() + self.spilled_entries_of(second.number());
        let at_most = spilled as u64 + (SLOTS as u64 + 1) * u64::from(FULL);
        at_most <= most || self.count_turn(second, most)
    }

    /// How many entries all of the first level has in spilled lines.
    #[inline(always)]
    fn spilled_of_first_level(&self) -> usize {
        // Mostly it is empty where a turn begins.
        if self.occupied[..LEVEL_WORDS].iter().all(|word| *word == 0) {
            return 0;
        }
        self.spilled_lines[..SLOTS].iter().sum::<u32>() as usize * FULL as usize
    }

    #[inline(never)]
    fn count_turn(&self, second: Place, most: u64) -> bool {
        let count = self.len(0) + self.entries_of(second.number());
        count as u64 <= most
    }

    /// The first slot of the first level that is not empty.
    pub(in crate::wheel) fn first_of_first_level(&self) -> Option<Place> {
        let words = &self.occupied[..LEVEL_WORDS];
        let at = words.iter().position(|bits| *bits != 0)?;
        Some(Place::numbered(at * BITS + words[at].trailing_zeros() as usize))
    }

    /// What a slot's second line has, if it has one. Fetches the third.
    #[inline(always)]
    pub(in crate::wheel) fn second_line(&self, place: Place) -> Line {
        let second = self.spilled_line(self.line(place).next());
        if let Some(third) = second.and_then(|second| self.spilled_line(second.next())) {
            prefetch(third);
        }
        second.copied().unwrap_or(Line::EMPTY)
    }
}
