//! Chunks: a few timers of one slot, by index, in one cache line.

use alloc::boxed::Box;
use core::num::NonZeroU32;

use super::place::Place;
use super::pool::Page;

/// How many timers a chunk holds.
pub(super) const FULL: u32 = 14;

/// How many chunks there may be.
pub(super) const LIMIT: u32 = 1 << 27;

/// No chunk has this number.
pub(super) const NIL: u32 = u32::MAX;

/// How many chunks a page has.
const PAGE: usize = if cfg!(any(test, miri)) { 4 } else { 256 };

const WORD_BITS: u32 = 4;
const WORDS: usize = 1 << WORD_BITS;
const NEXT: usize = 0;
const SLOT_AND_LEN: usize = 1;
const FIRST: u32 = 2;

const ONE: u32 = 1 << 16;

const _: () = assert!(FIRST + FULL == 1 << WORD_BITS && size_of::<Chunk>() == 64);

/// The next chunk of the slot, the slot and how many there are, and the timers' indices.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Chunk([u32; WORDS]);

impl Chunk {
    /// Begins anew, without timers.
    #[inline]
    pub(super) fn begin(&mut self, place: Place, next: u32) {
        self.0[NEXT] = next;
        self.0[SLOT_AND_LEN] = place.to_bits();
    }

    #[inline]
    pub(super) fn next(&self) -> u32 {
        self.0[NEXT]
    }

    #[inline]
    pub(super) fn place(&self) -> Place {
        Place::from_bits(self.0[SLOT_AND_LEN])
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.0[SLOT_AND_LEN] / ONE
    }

    /// Adds a timer to a chunk that is not full. Returns its word.
    #[inline]
    pub(super) fn push(&mut self, index: u32) -> u32 {
        let word = FIRST + self.len();
        self.0[word as usize % WORDS] = index;
        self.0[SLOT_AND_LEN] += ONE;
        word
    }

    /// Takes out so many of the last timers and holes.
    #[inline]
    pub(super) fn truncate(&mut self, count: u32) {
        self.0[SLOT_AND_LEN] -= count * ONE;
    }

    /// Timer number `at`.
    #[inline]
    pub(super) fn get(&self, at: u32) -> u32 {
        self.0[(FIRST + at) as usize % WORDS]
    }

    /// Puts something else in the place of a timer or a hole.
    #[inline]
    pub(super) fn replace(&mut self, position: Position, index: u32) {
        self.0[position.0.get() as usize % WORDS] = index;
    }

    /// Where number `at` is, in the chunk of this number.
    pub(super) fn position(number: u32, at: u32) -> Position {
        Position::within(number, FIRST + at)
    }

    /// Timers and holes.
    pub(super) fn words(&self) -> &[u32] {
        &self.0[FIRST as usize..(FIRST + self.len().min(FULL)) as usize]
    }
}

/// What a slot begins with: the indices of a chunk, and where they stand.
#[derive(Debug)]
pub(super) struct Last {
    words: [u32; WORDS],
    /// The words up to this one, from [`FIRST`].
    end: u32,
    chunk: u32,
}

impl Last {
    #[inline(always)]
    pub(super) fn of(number: u32, chunk: &Chunk) -> Self {
        Last { words: chunk.0, end: FIRST + chunk.len(), chunk: number }
    }

    #[inline(always)]
    pub(super) fn alone(index: u32, place: Place) -> Self {
        Last { words: [index; WORDS], end: FIRST + 1, chunk: Position::alone(place).chunk() }
    }

    /// The last first, and at most so many.
    #[inline(always)]
    pub(super) fn iter(&self, at_most: u64) -> impl Iterator<Item = (u32, Position)> {
        let at_most = u32::try_from(at_most).unwrap_or(FULL);
        let words = FIRST.max(self.end.saturating_sub(at_most))..self.end;
        words.rev().map(|word| (self.words[word as usize % WORDS], Position::within(self.chunk, word)))
    }
}

/// Where a timer's index stands: the chunk's number and the word in it, or the slot itself, if it is alone there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(NonZeroU32);

const ALONE: u32 = 1 << 31;

impl Position {
    #[inline]
    pub(super) fn within(chunk: u32, word: u32) -> Self {
        Self(NonZeroU32::new(chunk << WORD_BITS | word).expect("the first words are the chunk's own"))
    }

    #[inline]
    pub(super) fn alone(place: Place) -> Self {
        Self::within(ALONE >> WORD_BITS | place.to_bits(), FIRST)
    }

    /// The slot, if the timer is alone in it.
    #[inline]
    pub(super) fn as_alone(self) -> Option<Place> {
        (self.0.get() & ALONE != 0).then(|| Place::from_bits(self.chunk()))
    }

    #[inline]
    pub(super) fn chunk(self) -> u32 {
        self.0.get() >> WORD_BITS
    }
}

/// In a free chunk, the first word is the next free one.
#[derive(Debug)]
pub(super) struct Chunks([Chunk; PAGE]);

impl Chunks {
    #[inline]
    pub(super) fn get(&self, place: usize) -> &Chunk {
        &self.0[place]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: usize) -> &mut Chunk {
        &mut self.0[place]
    }
}

impl Page for Chunks {
    const LEN: usize = PAGE;

    fn bring(_: u32) -> Box<Self> {
        let mut page = Box::new(Chunks([const { Chunk([0; WORDS]) }; PAGE]));
        for (chunk, next) in page.0.iter_mut().zip(1..) {
            chunk.0[NEXT] = next;
        }
        page
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "what was stored was one")]
    fn next_free(&self, place: usize) -> u16 {
        self.0[place].0[NEXT] as u16
    }

    #[inline]
    fn set_next_free(&mut self, place: usize, next: u16) {
        self.0[place].0[NEXT] = next.into();
    }

    #[inline]
    fn is_retired(&self, _: usize) -> bool {
        false
    }

    fn generation(&self) -> u32 {
        0
    }
}
