//! The slots: which timers are where, by index, in chunks.
//!
//! A slot's timers are a list of chunks of one cache line, of which only the first may have room. A timer goes into that; one
//! that is taken out leaves a hole, which the last one of the first chunk fills. So a slot is emptied by reading memory in
//! order, and whoever empties it knows early what comes next.

#[cfg(test)]
mod check;

use alloc::boxed::Box;
use core::num::NonZeroU32;

use super::place::{LEVELS, Place, SLOTS};
use super::pool::{Page, Pool};
use super::timers::prefetch;

/// How many chunks a page has.
const PAGE: usize = 256;

/// How many chunks there may be.
const LIMIT: u32 = 1 << (u32::BITS - Position::WORD_BITS);

/// How many timers a chunk holds.
const FULL: u32 = 14;

/// No chunk has this number.
const NIL: u32 = u32::MAX;

/// Where a timer's index stands: the chunk's number, and the word in it, which is never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(NonZeroU32);

impl Position {
    const WORD_BITS: u32 = 4;

    fn of(chunk: u32, word: u32) -> Self {
        Self(NonZeroU32::new(chunk << Self::WORD_BITS | word).expect("the first word is the chunk's own"))
    }

    fn chunk(self) -> u32 {
        self.0.get() >> Self::WORD_BITS
    }

    fn word(self) -> usize {
        self.0.get() as usize % WORDS_A_CHUNK
    }
}

const WORDS_A_CHUNK: usize = 1 << Position::WORD_BITS;

/// One cache line: the next chunk, the slot and how many there are, and the timers' indices.
#[derive(Debug)]
#[repr(align(64))]
struct Chunk([u32; WORDS_A_CHUNK]);

const NEXT: usize = 0;
const SLOT_AND_LEN: usize = 1;
const FIRST: u32 = 2;
const LEN_SHIFT: u32 = 16;

const _: () = assert!(FIRST + FULL == WORDS_A_CHUNK as u32);

impl Chunk {
    fn new(place: Place, next: u32) -> Self {
        let mut words = [0; WORDS_A_CHUNK];
        words[NEXT] = next;
        words[SLOT_AND_LEN] = u32::from(place.level) << 8 | u32::from(place.slot);
        Self(words)
    }

    fn next(&self) -> u32 {
        self.0[NEXT]
    }

    fn place(&self) -> Place {
        let [slot, level, ..] = self.0[SLOT_AND_LEN].to_le_bytes();
        Place { level, slot }
    }

    fn len(&self) -> u32 {
        self.0[SLOT_AND_LEN] >> LEN_SHIFT
    }
}

/// In a free chunk, the first word is the next free one.
#[derive(Debug)]
struct Chunks([Chunk; PAGE]);

impl Page for Chunks {
    const LEN: usize = PAGE;

    fn bring(_: u32) -> Box<Self> {
        let mut page = Box::new(Chunks([const { Chunk([0; WORDS_A_CHUNK]) }; PAGE]));
        for (chunk, next) in page.0.iter_mut().zip(1..) {
            chunk.0[NEXT] = next;
        }
        page
    }

    #[expect(clippy::cast_possible_truncation, reason = "what was stored was one")]
    fn next_free(&self, place: usize) -> u16 {
        self.0[place].0[NEXT] as u16
    }

    fn set_next_free(&mut self, place: usize, next: u16) {
        self.0[place].0[NEXT] = next.into();
    }

    fn generation(&self) -> u32 {
        0
    }
}

/// One level: where each of its slots begins.
#[derive(Debug)]
struct Level {
    first: [u32; SLOTS],
    /// One bit a slot, set if it is not empty.
    occupied: [u64; OCCUPIED],
    /// How many timers the level holds.
    len: usize,
}

const OCCUPIED: usize = SLOTS / u64::BITS as usize;

impl Level {
    const EMPTY: Level = Level { first: [NIL; SLOTS], occupied: [0; OCCUPIED], len: 0 };
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Slots {
    levels: Box<[Level; LEVELS]>,
    /// One bit a level, set if it holds timers.
    not_empty: u8,
    pool: Pool<Chunks>,
}

/// A timer that was taken from somewhere else to fill a hole.
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
        let mut left = self.not_empty;
        core::iter::from_fn(move || {
            let level = (left != 0).then(|| left.trailing_zeros() as u8)?;
            left &= left - 1;
            Some(level)
        })
    }

    pub(super) fn is_empty(&self, place: Place) -> bool {
        self.level(place).first[usize::from(place.slot)] == NIL
    }

    /// Puts a timer into a slot.
    pub(super) fn push(&mut self, place: Place, index: u32) -> Position {
        let level = &mut self.levels[usize::from(place.level) % LEVELS];
        level.len += 1;
        let first = level.first[usize::from(place.slot)];
        if first != NIL {
            let chunk = chunk_mut(&mut self.pool, first);
            let len = chunk.len();
            if len < FULL {
                let word = FIRST + len;
                chunk.0[word as usize % WORDS_A_CHUNK] = index;
                chunk.0[SLOT_AND_LEN] += 1 << LEN_SHIFT;
                return Position::of(first, word);
            }
        }
        self.push_chunk(place, first, index)
    }

    fn push_chunk(&mut self, place: Place, next: u32, index: u32) -> Position {
        let (number, page, at) = self.pool.take(LIMIT);
        let chunk = &mut page.0[at];
        *chunk = Chunk::new(place, next);
        chunk.0[FIRST as usize] = index;
        chunk.0[SLOT_AND_LEN] += 1 << LEN_SHIFT;
        let level = &mut self.levels[usize::from(place.level) % LEVELS];
        level.first[usize::from(place.slot)] = number;
        level.occupied[word_of(place.slot)] |= bit_of(place.slot);
        self.not_empty |= 1 << place.level;
        Position::of(number, FIRST)
    }

    /// Takes out the timer at `position`. Returns the one that is there instead.
    pub(super) fn remove(&mut self, position: Position) -> Option<Moved> {
        let place = chunk(&self.pool, position.chunk()).place();
        self.remove_from(place, position)
    }

    /// Moves a timer to another slot. Returns where it is, and which one is in its place.
    pub(super) fn relocate(&mut self, index: u32, from: Position, to: Place) -> (Position, Option<Moved>) {
        let place = chunk(&self.pool, from.chunk()).place();
        if place == to {
            return (from, None);
        }
        let moved = self.remove_from(place, from);
        (self.push(to, index), moved)
    }

    fn remove_from(&mut self, place: Place, position: Position) -> Option<Moved> {
        let first = self.level(place).first[usize::from(place.slot)];
        let (last, to) = self.take_last(place, first);
        if to == position {
            return None;
        }
        chunk_mut(&mut self.pool, position.chunk()).0[position.word()] = last;
        Some(Moved { index: last, to: position })
    }

    /// Takes a timer out of a slot that is not empty.
    pub(super) fn pop(&mut self, place: Place) -> u32 {
        let first = self.level(place).first[usize::from(place.slot)];
        self.take_last(place, first).0
    }

    /// Takes the last timer out of a slot's first chunk.
    fn take_last(&mut self, place: Place, first: u32) -> (u32, Position) {
        let chunk = chunk_mut(&mut self.pool, first);
        chunk.0[SLOT_AND_LEN] -= 1 << LEN_SHIFT;
        let len = chunk.len();
        let word = FIRST + len;
        let index = chunk.0[word as usize % WORDS_A_CHUNK];
        let next = chunk.next();
        let level = &mut self.levels[usize::from(place.level) % LEVELS];
        level.len -= 1;
        if len == 0 {
            level.first[usize::from(place.slot)] = next;
            if next == NIL {
                level.occupied[word_of(place.slot)] &= !bit_of(place.slot);
                if level.len == 0 {
                    self.not_empty &= !(1 << place.level);
                }
            }
            self.pool.give_back(first);
        }
        (index, Position::of(first, word))
    }

    /// The timer that will be taken as many pops later as a chunk holds, if this slot has so many. Fetches what will be needed
    /// to answer that the next time.
    pub(super) fn upcoming(&self, place: Place) -> Option<u32> {
        let first = self.level(place).first[usize::from(place.slot)];
        if first == NIL {
            return None;
        }
        let chunk_now = chunk(&self.pool, first);
        if chunk_now.next() == NIL {
            return None;
        }
        let then = chunk(&self.pool, chunk_now.next());
        if chunk_now.len() == FULL && then.next() != NIL {
            prefetch(chunk(&self.pool, then.next()));
        }
        Some(then.0[(FIRST + chunk_now.len() - 1) as usize % WORDS_A_CHUNK])
    }

    /// The timers in a slot's first chunk.
    pub(super) fn first_few(&self, place: Place) -> impl Iterator<Item = u32> {
        let first = self.level(place).first[usize::from(place.slot)];
        let chunk = (first != NIL).then(|| chunk(&self.pool, first));
        chunk
            .into_iter()
            .flat_map(|chunk| chunk.0[FIRST as usize..].iter().take(chunk.len() as usize).copied())
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

    fn level(&self, place: Place) -> &Level {
        &self.levels[usize::from(place.level) % LEVELS]
    }
}

fn chunk(pool: &Pool<Chunks>, number: u32) -> &Chunk {
    let (page, place) = pool.at(number);
    &page.0[place]
}

fn chunk_mut(pool: &mut Pool<Chunks>, number: u32) -> &mut Chunk {
    let (page, place) = pool.at_mut(number);
    &mut page.0[place]
}

fn word_of(slot: u8) -> usize {
    usize::from(slot) / u64::BITS as usize
}

fn bit_of(slot: u8) -> u64 {
    1 << (u32::from(slot) % u64::BITS)
}
