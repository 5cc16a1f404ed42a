//! Lines: the entries of a slot, fourteen at a time, in one cache line.

use alloc::boxed::Box;

use super::memory::PoolPage;

pub(super) const LINE_CAPACITY: u32 = 14;

const LINES_PER_PAGE: usize = if cfg!(any(test, miri)) { 4 } else { 256 };

/// Maximum number of spilled lines. Links are numbered from 1, and `u32::MAX` is [`LineLink::SWEPT`].
pub(super) const MAX_SPILLED_LINES: u32 = 1 << 30;

const WORDS: usize = 16;
const LEN: usize = 14;
const NEXT: usize = 15;

const _: () = assert!(LINE_CAPACITY as usize == LEN && size_of::<EntryLine>() == 64);

/// Up to 14 entries, their number, and a link to the next line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct EntryLine([u32; WORDS]);

/// Link from a line to the next line of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineLink(u32);

impl LineLink {
    pub(super) const END: LineLink = LineLink(0);

    /// End of the lines of a slot whose remaining lines are still to be visited by the
    /// [sweep](super::slots::Sweep).
    pub(super) const SWEPT: LineLink = LineLink(u32::MAX);

    pub(super) fn to(number: u32) -> LineLink {
        LineLink(number + 1)
    }

    pub(super) fn number(self) -> Option<u32> {
        (self != LineLink::SWEPT).then(|| self.0.checked_sub(1))?
    }
}

impl EntryLine {
    pub(super) const EMPTY: EntryLine = EntryLine([0; WORDS]);

    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        self.0[LEN]
    }

    #[inline(always)]
    pub(super) fn next(&self) -> LineLink {
        LineLink(self.0[NEXT])
    }

    pub(super) fn set_next(&mut self, next: LineLink) {
        self.0[NEXT] = next.0;
    }

    #[inline(always)]
    pub(super) fn has_entries(&self) -> bool {
        self.0[LEN] > 0
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0[LEN] == 0 && self.0[NEXT] == 0
    }

    /// Adds an entry. The line must not be full.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: u32) {
        let len = self.0[LEN];
        self.0[len as usize % WORDS] = entry;
        self.0[LEN] = len + 1;
    }

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
        &self.0[..self.0[LEN].min(LINE_CAPACITY) as usize]
    }

    pub(super) fn retain(&mut self, mut fits: impl FnMut(u32) -> bool) {
        let mut kept = 0;
        for at in 0..self.0[LEN].min(LINE_CAPACITY) as usize {
            let entry = self.0[at];
            if fits(entry) {
                self.0[kept] = entry;
                kept += 1;
            }
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most the previous length")]
        let len = kept as u32;
        self.0[LEN] = len;
    }
}

#[derive(Debug)]
pub(super) struct LinePage([EntryLine; LINES_PER_PAGE]);

impl LinePage {
    #[inline]
    pub(super) fn get(&self, offset: usize) -> &EntryLine {
        &self.0[offset]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, offset: usize) -> &mut EntryLine {
        &mut self.0[offset]
    }
}

impl PoolPage for LinePage {
    const LEN: usize = LINES_PER_PAGE;

    fn new_free(_: u32) -> Box<Self> {
        let mut lines = Box::new(LinePage([EntryLine::EMPTY; LINES_PER_PAGE]));
        for (line, next) in lines.0.iter_mut().zip(1..) {
            line.0[NEXT] = next;
        }
        lines
    }

    #[expect(clippy::cast_possible_truncation, reason = "stored as a u16")]
    fn next_free(&self, offset: usize) -> u16 {
        self.0[offset].0[NEXT] as u16
    }

    fn set_next_free(&mut self, offset: usize, next: u16) {
        self.0[offset].0[NEXT] = next.into();
    }

    fn is_retired(&self, _: usize) -> bool {
        false
    }

    fn generation(&self) -> u32 {
        0
    }
}
