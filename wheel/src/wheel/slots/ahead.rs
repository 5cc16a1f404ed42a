//! Looking ahead: which slot comes next, and which timers will come out of a slot.

use super::{ALONE, Chunk, LEVELS, NIL, Place, Slots, WORDS, word_of};
use crate::Tick;
use crate::wheel::chunk::FULL;
use crate::wheel::timers::prefetch;

impl Slots {
    /// The first tick from `now` on with a slot of its own that is not empty, if the levels above have none before: that is, unless
    /// `now` begins a turn, or all that is left of this turn is empty.
    #[inline]
    pub(in crate::wheel) fn later_in_turn(&self, now: Tick) -> Option<(Tick, Place)> {
        let here = Place::current(now, 0).slot();
        if here == 0 {
            return None;
        }
        let occupied = &self.occupied[0];
        let mut word = word_of(here);
        let mut bits = occupied[word % WORDS] & (u64::MAX << (u32::from(here) % u64::BITS));
        while bits == 0 {
            word += 1;
            bits = *occupied.get(word)?;
        }
        let slot = slot_of(word, bits);
        let ahead = u64::from(slot - here);
        Some((Tick(now.0 + ahead), Place::new(0, slot)))
    }

    /// The first slot of `level` with timers in it, going once around from `slot`, which counts as the nearest.
    pub(in crate::wheel) fn next_occupied(&self, level: u8, slot: u8) -> Option<u8> {
        let occupied = &self.occupied[usize::from(level) % LEVELS];
        let (word, ahead) = (word_of(slot), u64::MAX << (u32::from(slot) % u64::BITS));
        let nearest = occupied[word % WORDS] & ahead;
        if nearest != 0 {
            return Some(slot_of(word, nearest));
        }
        for step in 1..WORDS {
            let word = (word + step) % WORDS;
            if occupied[word] != 0 {
                return Some(slot_of(word, occupied[word]));
            }
        }
        // Once around: the slots before it.
        let farthest = occupied[word % WORDS] & !ahead;
        (farthest != 0).then(|| slot_of(word, farthest))
    }

    /// The index that will be taken as many pops later as a chunk holds, if this slot has so many. Fetches what will be needed
    /// to answer that the next time.
    #[inline]
    pub(in crate::wheel) fn upcoming(&self, place: Place) -> Option<u32> {
        let chunk = self.first_chunk(place)?;
        let then = self.next_chunk(chunk)?;
        if chunk.len() == FULL
            && let Some(next) = self.next_chunk(then)
        {
            prefetch(next);
        }
        Some(then.get(chunk.len() - 1))
    }

    /// The indices in a slot's first chunk. Fetches the second.
    pub(in crate::wheel) fn first_few(&self, place: Place) -> impl Iterator<Item = u32> {
        self.few(self.first_chunk(place))
    }

    /// The indices in a slot's second chunk, if the first is all there. Fetches the third.
    pub(in crate::wheel) fn next_few(&self, place: Place) -> impl Iterator<Item = u32> {
        let first = self.first_chunk(place).filter(|chunk| chunk.len() == FULL);
        self.few(first.and_then(|chunk| self.next_chunk(chunk)))
    }

    fn few(&self, chunk: Option<&Chunk>) -> impl Iterator<Item = u32> {
        if let Some(next) = chunk.and_then(|chunk| self.next_chunk(chunk)) {
            prefetch(next);
        }
        chunk.map_or(&[][..], Chunk::words).iter().copied()
    }

    fn next_chunk(&self, chunk: &Chunk) -> Option<&Chunk> {
        Some(chunk.next()).filter(|next| *next != NIL).map(|next| self.chunk(next))
    }

    fn first_chunk(&self, place: Place) -> Option<&Chunk> {
        let first = self.first(place);
        (first.0 & ALONE == 0).then(|| self.chunk(first.0))
    }
}

/// The slot of the first of these bits, of which there is one.
fn slot_of(word: usize, bits: u64) -> u8 {
    let slot = word * u64::BITS as usize + bits.trailing_zeros() as usize;
    u8::try_from(slot).expect("a level has 256 slots")
}
