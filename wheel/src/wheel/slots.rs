//! The slots: which timers are where, by index.
//!
//! A slot has no timer, or one, or a list of [chunks](super::chunk), of which only the first may have room. A timer's index goes into
//! that. When the timer is cancelled or moved, the index stays, as a *hole*: it counts only while the timer's position says that it
//! stands there. So a slot is emptied by reading memory in order, and whoever empties it knows early what comes next. When there are
//! too many holes, they are filled, a chunk at a time, by the last timers of their slots.

use alloc::boxed::Box;

use super::chunk::{Chunk, Chunks, FULL, LIMIT, Last, NIL, Position};
use super::place::{LEVELS, PLACES, Place, SLOTS};
use super::pool::Pool;

mod ahead;
#[cfg(test)]
mod check;
mod sweep;

use sweep::Sweep;

/// What a slot begins with: a chunk's number, or a timer's index with [`ALONE`], or nothing.
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
    /// What each slot begins with, of all levels.
    first: Box<[First; PLACES]>,
    /// One bit a slot, set if it is not empty.
    occupied: [[u64; WORDS]; LEVELS],
    /// How many timers and holes each level has.
    len: [usize; LEVELS],
    pool: Pool<Chunks>,
    holes: usize,
    sweep: Sweep,
}

const WORDS: usize = SLOTS / u64::BITS as usize;

/// What else has changed when a timer was put into a slot.
#[derive(Debug)]
pub(super) enum Change {
    Nothing,
    /// The slot was empty.
    Begun,
    Moved(Moved),
}

/// A timer that has another position now.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) index: u32,
    pub(super) to: Position,
}

impl Slots {
    pub(super) fn new() -> Self {
        Slots {
            first: Box::new([First::NONE; PLACES]),
            occupied: [[0; WORDS]; LEVELS],
            len: [0; LEVELS],
            pool: Pool::new(),
            holes: 0,
            sweep: Sweep::default(),
        }
    }

    /// How many timers a level holds, and holes.
    pub(super) fn len(&self, level: usize) -> usize {
        self.len[level]
    }

    /// The levels that hold timers, or holes, the nearest first.
    pub(super) fn levels(&self) -> impl Iterator<Item = u8> {
        (0..).zip(&self.len).filter(|(_, len)| **len > 0).map(|(level, _)| level)
    }

    #[inline]
    pub(super) fn is_empty(&self, place: Place) -> bool {
        self.first(place) == First::NONE
    }

    /// Puts a timer into a slot. Returns where it is, and what else has changed.
    #[inline(always)]
    pub(super) fn push(&mut self, place: Place, index: u32) -> (Position, Change) {
        self.len[usize::from(place.level()) % LEVELS] += 1;
        let first = &mut self.first[place.number()];
        if *first == First::NONE {
            *first = First(index | ALONE);
            *self.occupied_mut(place) |= bit_of(place.slot());
            return (Position::alone(place), Change::Begun);
        }
        let first = *first;
        if let Some(other) = first.as_alone() {
            let (number, chunk) = self.push_chunk(place, NIL);
            let moved = Moved { index: other, to: Position::within(number, chunk.push(other)) };
            return (Position::within(number, chunk.push(index)), Change::Moved(moved));
        }
        let chunk = self.chunk_mut(first.0);
        if chunk.len() < FULL {
            return (Position::within(first.0, chunk.push(index)), Change::Nothing);
        }
        let (number, chunk) = self.push_chunk(place, first.0);
        (Position::within(number, chunk.push(index)), Change::Nothing)
    }

    #[inline(never)]
    fn push_chunk(&mut self, place: Place, next: u32) -> (u32, &mut Chunk) {
        let (number, page, at) = self.pool.take(LIMIT);
        self.first[place.number()] = First(number);
        let chunk = page.get_mut(at);
        chunk.begin(place, next);
        (number, chunk)
    }

    /// The timer at `position` is there no more. In a chunk its index stays, as a hole: nothing need be read or written, since
    /// the timer tells.
    #[inline(always)]
    pub(super) fn leave(&mut self, position: Position) {
        if let Some(place) = position.as_alone() {
            self.count_out(place, 1, Some(First::NONE));
        } else {
            self.holes += 1;
        }
    }

    /// How many indices stand where their timers are no more. Levels count them.
    #[inline]
    pub(super) fn holes(&self) -> usize {
        self.holes
    }

    /// Takes the last index out of what a slot begins with, which is not empty, and tells where it stood.
    #[inline(always)]
    pub(super) fn pop(&mut self, place: Place) -> (u32, Position) {
        let first = self.first(place);
        if let Some(index) = first.as_alone() {
            self.count_out(place, 1, Some(First::NONE));
            return (index, Position::alone(place));
        }
        let chunk = self.chunk(first.0);
        let at = chunk.len() - 1;
        let popped = (chunk.get(at), Chunk::position(first.0, at));
        self.shorten(place, first.0, 1);
        popped
    }

    /// What was popped was a hole.
    pub(super) fn count_hole_out(&mut self) {
        self.holes -= 1;
    }

    /// What a slot that is not empty begins with.
    #[inline(always)]
    pub(super) fn last(&self, place: Place) -> Last {
        let first = self.first(place);
        match first.as_alone() {
            Some(index) => Last::alone(index, place),
            None => Last::of(first.0, self.chunk(first.0)),
        }
    }

    /// Takes out as many of what [`last`](Self::last) has told, the first first, of which so many were holes.
    #[inline(always)]
    pub(super) fn take(&mut self, place: Place, count: u32, holes: usize) {
        self.holes -= holes;
        let first = self.first(place);
        if first.as_alone().is_some() {
            debug_assert_eq!(count, 1);
            self.count_out(place, 1, Some(First::NONE));
        } else {
            self.shorten(place, first.0, count);
        }
    }

    /// Takes the last few out of a slot's first chunk, and that away if it is empty then.
    #[inline(always)]
    fn shorten(&mut self, place: Place, number: u32, count: u32) {
        let chunk = self.chunk_mut(number);
        chunk.truncate(count);
        let next = (chunk.len() == 0).then(|| First(chunk.next()));
        self.count_out(place, count as usize, next);
        if next.is_some() {
            self.pool.give_back(number);
        }
    }

    /// So many have left a slot, which begins with something else now.
    #[inline(always)]
    fn count_out(&mut self, place: Place, words: usize, next: Option<First>) {
        self.len[usize::from(place.level()) % LEVELS] -= words;
        let Some(next) = next else { return };
        self.first[place.number()] = next;
        if next == First::NONE {
            *self.occupied_mut(place) &= !bit_of(place.slot());
        }
    }

    #[inline(always)]
    fn first(&self, place: Place) -> First {
        self.first[place.number()]
    }

    #[inline(always)]
    fn occupied_mut(&mut self, place: Place) -> &mut u64 {
        &mut self.occupied[usize::from(place.level()) % LEVELS][word_of(place.slot())]
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
