//! Lines: the entries of a slot, fourteen at a time, in one cache line.

use alloc::boxed::Box;

use super::memory::Page;

/// How many entries a line holds.
pub(super) const FULL: u32 = 14;

/// How many lines a page has.
const PAGE: usize = if cfg!(any(test, miri)) { 4 } else { 256 };

/// How many lines may be spilled: links count from 1, and one is special.
pub(super) const LIMIT: u32 = 1 << 30;

const WORDS: usize = 16;
const LEN: usize = 14;
const NEXT: usize = 15;

const _: () = assert!(FULL as usize == LEN && size_of::<Line>() == 64);

/// Entries, how many there are, and where there are more.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Line([u32; WORDS]);

/// Leads from a line to the next of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(u32);

impl Link {
    /// There is none.
    pub(super) const END: Link = Link(0);

    /// There is one if a [sweep](super::slots::Sweep) has not come to it yet.
    pub(super) const SWEPT: Link = Link(u32::MAX);

    pub(super) fn to(number: u32) -> Link {
        Link(number + 1)
    }

    /// The line's number; nothing for both special ones.
    pub(super) fn number(self) -> Option<u32> {
        (self != Link::SWEPT).then(|| self.0.checked_sub(1))?
    }
}

impl Line {
    pub(super) const EMPTY: Line = Line([0; WORDS]);

    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.0[LEN]
    }

    #[inline(always)]
    pub(super) fn next(&self) -> Link {
        Link(self.0[NEXT])
    }

    pub(super) fn set_next(&mut self, next: Link) {
        self.0[NEXT] = next.0;
    }

    #[inline(always)]
    pub(super) fn has_entries(&self) -> bool {
        self.0[LEN] > 0
    }

    /// Neither an entry nor more elsewhere.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0[LEN] == 0 && self.0[NEXT] == 0
    }

    /// Adds an entry to a line that is not full.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: u32) {
        let len = self.0[LEN];
        self.0[len as usize % WORDS] = entry;
        self.0[LEN] = len + 1;
    }

    /// The last entry of a line that has one.
    #[inline(always)]
    pub(super) fn last(&self) -> u32 {
        self.0[(self.0[LEN] as usize).wrapping_sub(1) % WORDS]
    }

    #[inline(always)]
    pub(super) fn pop(&mut self) -> u32 {
        let entry = self.last();
        self.0[LEN] -= 1;
        entry
    }

    pub(super) fn clear(&mut self) {
        self.0[LEN] = 0;
    }

    pub(super) fn entries(&self) -> &[u32] {
        &self.0[..self.0[LEN].min(FULL) as usize]
    }

    /// Takes out what does not fit.
    pub(super) fn retain(&mut self, mut fits: impl FnMut(u32) -> bool) {
        let mut kept = 0;
        for at in 0..self.0[LEN].min(FULL) as usize {
            let entry = self.0[at];
            if fits(entry) {
                self.0[kept] = entry;
                kept += 1;
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "no more than there were")]
        let len = kept as u32;
        self.0[LEN] = len;
    }
}

/// Lines that are not the first of their slots.
#[derive(Debug)]
pub(super) struct Lines([Line; PAGE]);

impl Lines {
    #[inline]
    pub(super) fn get(&self, place: usize) -> &Line {
        &self.0[place]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: usize) -> &mut Line {
        &mut self.0[place]
    }
}

impl Page for Lines {
    const LEN: usize = PAGE;

    fn bring(_: u32) -> Box<Self> {
        let mut lines = Box::new(Lines([Line::EMPTY; PAGE]));
        for (line, next) in lines.0.iter_mut().zip(1..) {
            line.0[NEXT] = next;
        }
        lines
    }

    #[expect(clippy::cast_possible_truncation, reason = "what was stored was one")]
    fn next_free(&self, place: usize) -> u16 {
        self.0[place].0[NEXT] as u16
    }

    fn set_next_free(&mut self, place: usize, next: u16) {
        self.0[place].0[NEXT] = next.into();
    }

    fn is_retired(&self, _: usize) -> bool {
        false
    }

    /// Lines have none.
    fn generation(&self) -> u32 {
        0
    }
}
