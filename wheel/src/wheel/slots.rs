//! The slots: which timers are where, by index.
//!
//! A slot has no timer, or one, or a list of [chunks](super::chunk), of which only the first may have room. A timer goes into
//! that; one that is taken out leaves a hole, which the last one of the first chunk fills. So a slot is emptied by reading
//! memory in order, and whoever empties it knows early what comes next.

use alloc::boxed::Box;

use super::chunk::{Chunk, Chunks, FULL, LIMIT, NIL, Position};
use super::place::{LEVELS, Place, SLOTS};
use super::pool::Pool;
use super::timers::prefetch;

#[cfg(test)]
mod check;

/// One level: what each of its slots begins with.
#[derive(Debug)]
struct Level {
    first: [First; SLOTS],
    /// One bit a slot, set if it is not empty.
    occupied: [u64; OCCUPIED],
    /// How many timers the level holds.
    len: usize,
}

const OCCUPIED: usize = SLOTS / u64::BITS as usize;

impl Level {
    const EMPTY: Level = Level { first: [First::NONE; SLOTS], occupied: [0; OCCUPIED], len: 0 };
}

/// A chunk's number, or a timer's index with this bit, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct First(u32);

const ALONE: u32 = 1 << 31;

impl First {
    const NONE: First = First(NIL);

    fn as_alone(self) -> Option<u32> {
        (self.0 & ALONE != 0 && self != First::NONE).then_some(self.0 & !ALONE)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Slots {
    levels: Box<[Level; LEVELS]>,
    /// One bit a level, set if it holds timers.
    not_empty: u8,
    pool: Pool<Chunks>,
}

/// A timer that has another position now.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) index: u32,
    pub(super) to: Position,
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots { levels: Box::new([Level::EMPTY; LEVELS]), not_empty: 0, pool: Pool::new() }
    }

    /// How many timers a level holds.
    pub(super) fn len(&self, level: usize) -> usize {
        self.levels[level].len
    }

    /// The levels that hold timers, the nearest first.
    pub(super) fn levels(&self) -> impl Iterator<Item = u8> + use<> {
        let not_empty = self.not_empty;
        (0..8).filter(move |level| not_empty >> level & 1 == 1)
    }

    #[inline]
    pub(super) fn is_empty(&self, place: Place) -> bool {
        self.first(place) == First::NONE
    }

    /// Puts a timer into a slot. Returns where it is, and which other had to move.
    #[inline(always)]
    pub(super) fn push(&mut self, place: Place, index: u32) -> (Position, Option<Moved>) {
        let level = self.level_mut(place);
        level.len += 1;
        let first = &mut level.first[usize::from(place.slot)];
        if *first == First::NONE {
            *first = First(index | ALONE);
            level.occupied[word_of(place.slot)] |= bit_of(place.slot);
            self.not_empty |= 1 << place.level;
            return (Position::alone(place), None);
        }
        let first = *first;
        if let Some(other) = first.as_alone() {
            let (number, chunk) = self.push_chunk(place, NIL);
            let moved = Moved { index: other, to: Position::within(number, chunk.push(other)) };
            return (Position::within(number, chunk.push(index)), Some(moved));
        }
        let chunk = self.chunk_mut(first.0);
        if chunk.len() < FULL {
            return (Position::within(first.0, chunk.push(index)), None);
        }
        let (number, chunk) = self.push_chunk(place, first.0);
        (Position::within(number, chunk.push(index)), None)
    }

    #[inline(never)]
    fn push_chunk(&mut self, place: Place, next: u32) -> (u32, &mut Chunk) {
        let (number, page, at) = self.pool.take(LIMIT);
        self.levels[usize::from(place.level) % LEVELS].first[usize::from(place.slot)] = First(number);
        let chunk = page.get_mut(at);
        chunk.begin(place, next);
        (number, chunk)
    }

    /// Takes out the timer at `position`. Returns the one that is there instead.
    #[inline(always)]
    pub(super) fn remove(&mut self, position: Position) -> Option<Moved> {
        let place = self.place(position);
        self.remove_from(place, position)
    }

    /// Moves a timer to another slot. Returns where it is, and which others had to move.
    #[inline]
    pub(super) fn relocate(
        &mut self,
        index: u32,
        from: Position,
        to: Place,
    ) -> (Position, [Option<Moved>; 2]) {
        let place = self.place(from);
        if place == to {
            return (from, [None, None]);
        }
        let moved = self.remove_from(place, from);
        let (position, displaced) = self.push(to, index);
        (position, [moved, displaced])
    }

    /// The slot that a position is in.
    #[inline(always)]
    fn place(&self, position: Position) -> Place {
        position.as_alone().unwrap_or_else(|| self.chunk(position.chunk()).place())
    }

    #[inline(always)]
    fn remove_from(&mut self, place: Place, position: Position) -> Option<Moved> {
        let (last, to) = self.take_last(place);
        if to == position {
            return None;
        }
        self.chunk_mut(position.chunk()).replace(position, last);
        Some(Moved { index: last, to: position })
    }

    /// Takes a timer out of a slot that is not empty.
    #[inline]
    pub(super) fn pop(&mut self, place: Place) -> u32 {
        self.take_last(place).0
    }

    /// Takes the last timer out of what a slot begins with.
    #[inline(always)]
    fn take_last(&mut self, place: Place) -> (u32, Position) {
        let first = self.first(place);
        if let Some(index) = first.as_alone() {
            self.count_out(place, Some(First::NONE));
            return (index, Position::alone(place));
        }
        let chunk = self.chunk_mut(first.0);
        let (index, word) = chunk.pop();
        let next = (chunk.len() == 0).then(|| First(chunk.next()));
        self.count_out(place, next);
        if next.is_some() {
            self.pool.give_back(first.0);
        }
        (index, Position::within(first.0, word))
    }

    /// A timer has left a slot, which begins with something else now.
    #[inline(always)]
    fn count_out(&mut self, place: Place, next: Option<First>) {
        let level = self.level_mut(place);
        level.len -= 1;
        let Some(next) = next else { return };
        level.first[usize::from(place.slot)] = next;
        if next == First::NONE {
            level.occupied[word_of(place.slot)] &= !bit_of(place.slot);
            if level.len == 0 {
                self.not_empty &= !(1 << place.level);
            }
        }
    }

    /// The timer that will be taken as many pops later as a chunk holds, if this slot has so many. Fetches what will be needed
    /// to answer that the next time.
    pub(super) fn upcoming(&self, place: Place) -> Option<u32> {
        let chunk = self.first_chunk(place)?;
        if chunk.next() == NIL {
            return None;
        }
        let then = self.chunk(chunk.next());
        if chunk.len() == FULL && then.next() != NIL {
            prefetch(self.chunk(then.next()));
        }
        Some(then.get(chunk.len() - 1))
    }

    /// The timers in a slot's first chunk.
    pub(super) fn first_few(&self, place: Place) -> &[u32] {
        self.first_chunk(place).map_or(&[], Chunk::timers)
    }

    fn first_chunk(&self, place: Place) -> Option<&Chunk> {
        let first = self.first(place);
        (first.0 & ALONE == 0).then(|| self.chunk(first.0))
    }

    /// The first slot of `level` with timers in it, going once around from `slot`, which counts as the nearest.
    pub(super) fn next_occupied(&self, level: u8, slot: u8) -> Option<u8> {
        let occupied = &self.levels[usize::from(level) % LEVELS].occupied;
        let (word, ahead) = (word_of(slot), u64::MAX << (u32::from(slot) % u64::BITS));
        let at = |word: usize, bits: u64| {
            let slot = word * u64::BITS as usize + bits.trailing_zeros() as usize;
            u8::try_from(slot).expect("a level has 256 slots")
        };
        let nearest = occupied[word % OCCUPIED] & ahead;
        if nearest != 0 {
            return Some(at(word, nearest));
        }
        for step in 1..OCCUPIED {
            let word = (word + step) % OCCUPIED;
            if occupied[word] != 0 {
                return Some(at(word, occupied[word]));
            }
        }
        // Once around: the slots before it.
        let farthest = occupied[word % OCCUPIED] & !ahead;
        (farthest != 0).then(|| at(word, farthest))
    }

    #[inline(always)]
    fn first(&self, place: Place) -> First {
        self.levels[usize::from(place.level) % LEVELS].first[usize::from(place.slot)]
    }

    #[inline(always)]
    fn level_mut(&mut self, place: Place) -> &mut Level {
        &mut self.levels[usize::from(place.level) % LEVELS]
    }

    #[inline(always)]
    fn chunk(&self, number: u32) -> &Chunk {
        let (page, place) = self.pool.at(number);
        page.get(place)
    }

    #[inline(always)]
    fn chunk_mut(&mut self, number: u32) -> &mut Chunk {
        let (page, place) = self.pool.at_mut(number);
        page.get_mut(place)
    }
}

fn word_of(slot: u8) -> usize {
    usize::from(slot) / u64::BITS as usize
}

fn bit_of(slot: u8) -> u64 {
    1 << (u32::from(slot) % u64::BITS)
}
