//! What a whole turn of the first level has.

use super::{BITS, LEVEL_WORDS, Line, Place, SLOTS, Slots};
use crate::wheel::line::FULL;
use crate::wheel::memory::prefetch;

impl Slots {
    /// Whether a slot of the second level has something, and with all of the first no more than `most` entries. Looks at no more lines of
    /// it than so many take. `false` as well while it is being swept: some of its lines are elsewhere then.
    #[inline(always)]
    pub(in crate::wheel) fn turn_has_at_most(&self, second: Place, most: u64) -> bool {
        let line = self.line(second);
        if line.is_empty() || self.sweep.is_at_work_in(second) {
            return false;
        }
        let spilled = self.spilled_len[0] + self.spilled_len[1];
        let at_most = spilled as u64 + 2 * SLOTS as u64 * u64::from(FULL);
        at_most <= most || self.count_turn(line, most)
    }

    #[inline(never)]
    fn count_turn(&self, second: &Line, most: u64) -> bool {
        let mut count = self.spilled_len[0] as u64;
        for (word, lines) in self.occupied[..LEVEL_WORDS].iter().zip(self.lines.chunks(BITS)) {
            if *word != 0 {
                count += lines.iter().map(|line| u64::from(line.len())).sum::<u64>();
            }
        }
        let mut line = Some(second);
        while let Some(this) = line.filter(|_| count <= most) {
            count += u64::from(this.len());
            line = self.spilled_line(this.next());
        }
        count <= most
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
