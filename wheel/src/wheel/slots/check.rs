use super::*;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

impl Slots {
    /// Panics unless everything that must hold does. `stands` tells whether a timer is at a position still. Returns the index, slot
    /// and position of all that are.
    pub(in crate::wheel) fn check(
        &self,
        stands: impl Fn(u32, Position) -> bool,
    ) -> Vec<(u32, Place, Position)> {
        let mut used = BTreeSet::new();
        let mut found = Vec::new();
        for level in 0..LEVELS {
            let before = found.len();
            let (first, occupied) = (&self.first[level * SLOTS..][..SLOTS], &self.occupied[level]);
            for (word, first) in (0_u8..).zip(first.chunks(64)) {
                if occupied[usize::from(word)] == 0 {
                    assert_eq!(first, [First::NONE; 64], "level {level}, from slot {word} * 64");
                    continue;
                }
                for slot in word * 64..=word * 64 + 63 {
                    let place = Place::new(u8::try_from(level).expect("there are eight"), slot);
                    let occupied = occupied[word_of(slot)] & bit_of(slot) != 0;
                    assert_eq!(occupied, !self.is_empty(place), "{place:?}");
                    if let Some(index) = self.first(place).as_alone() {
                        found.push((index, place, Position::alone(place)));
                    } else {
                        self.check_list(place, &mut used, &mut found);
                    }
                }
            }
            assert_eq!(self.len[level], found.len() - before, "level {level}");
        }
        self.pool.check(|number| used.contains(&number));
        let all = found.len();
        found.retain(|&(index, _, position)| stands(index, position));
        assert_eq!(self.holes, all - found.len());
        found
    }

    fn check_list(&self, place: Place, used: &mut BTreeSet<u32>, found: &mut Vec<(u32, Place, Position)>) {
        let first = self.first(place).0;
        let mut number = first;
        while number != NIL {
            assert!(used.insert(number), "chunk {number} is in one list");
            let chunk = self.chunk(number);
            assert_eq!(chunk.place(), place, "chunk {number}");
            assert!((1..=FULL).contains(&chunk.len()), "chunk {number} has {}", chunk.len());
            assert!(number == first || chunk.len() == FULL, "only the first of {place:?} has room");
            for (word, index) in (2..).zip(chunk.words()) {
                found.push((*index, place, Position::within(number, word)));
            }
            number = chunk.next();
        }
    }
}
