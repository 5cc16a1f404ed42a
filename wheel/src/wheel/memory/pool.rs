//! Memory addressed by index, in pages. The lowest page with a free entry is filled first, so that the
//! highest pages become empty and can be freed.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::NonNull;

use super::page_bitmap::PageBitmap;

#[cfg(test)]
mod check;

/// A page of entries.
pub(in crate::wheel) trait PoolPage: Sized {
    /// Number of entries in a page: a power of two below 2^16.
    const LEN: usize;

    /// Creates a page whose entries are all free and linked in order. `generation` is the value returned by
    /// [`generation`](Self::generation) of the previous page at this position, 2 for the first page, or 0 for
    /// a page whose entries are never used.
    fn new_free(generation: u32) -> Box<Self>;
    /// Returns the offset of the free entry that follows this one in the free list.
    fn next_free(&self, offset: usize) -> u16;
    fn set_next_free(&mut self, offset: usize, next: u16);
    /// Returns whether this entry, which was in use until now, must never be reused.
    fn is_retired(&self, offset: usize) -> bool;
    /// Returns the value to be passed to [`new_free`](Self::new_free) when another page later takes this
    /// position.
    fn generation(&self) -> u32;
}

/// Maximum number of empty pages that are kept, so that allocating and freeing a few entries repeatedly does
/// not allocate a page each time.
const MAX_SPARE_PAGES: usize = 8;

pub(in crate::wheel) struct Pool<P: PoolPage> {
    /// The pages. A position without a page holds `blank`, so that look-ups need no check.
    ///
    /// **Each pointer was created by [`PoolPage::new_free`], is owned by the pool, and stays valid until the
    /// pool removes it from here.**
    pages: Vec<NonNull<P>>,
    states: Vec<PageState>,
    /// A page whose entries are never used.
    blank: Option<NonNull<P>>,
    room: PageBitmap,
    /// Page from which entries are allocated. No lower page has a free entry. A recently freed entry is often
    /// reused next, while it is still in the cache.
    lowest: usize,
    allocated: usize,
    /// Number of pages without entries in use, at most [`MAX_SPARE_PAGES`].
    empty: usize,
}

// SAFETY: The pool owns its pages, as a `Box` would.
unsafe impl<P: PoolPage + Send> Send for Pool<P> {}
// SAFETY: As for `Send`. `&Pool` gives access to `&P` and nothing else.
unsafe impl<P: PoolPage + Sync> Sync for Pool<P> {}

#[derive(Debug)]
struct PageState {
    is_allocated: bool,
    generation: u32,
    /// Offset of the first free entry, or the page's length if no entry is free or the page is not allocated.
    first_free: u16,
    in_use: u16,
}

impl<P: PoolPage> Pool<P> {
    pub(in crate::wheel) const fn new() -> Self {
        const { assert!(P::LEN.is_power_of_two() && P::LEN < 1 << u16::BITS) }
        Pool {
            pages: Vec::new(),
            states: Vec::new(),
            blank: None,
            room: PageBitmap::new(),
            lowest: 0,
            allocated: 0,
            empty: 0,
        }
    }

    /// Allocates an entry. Returns its index, its page, and its offset in the page.
    ///
    /// # Panics
    ///
    /// Panics if all indices below `limit` are in use.
    #[inline(always)]
    pub(in crate::wheel) fn allocate(&mut self, limit: u32) -> (u32, &mut P, usize) {
        self.reserve(limit);
        self.allocate_reserved()
    }

    #[inline(always)]
    pub(in crate::wheel) fn reserve(&mut self, limit: u32) {
        if self.states.get(self.lowest).is_none_or(is_full::<P>) {
            self.find_page_with_room(limit);
        }
    }

    /// Allocates the first free entry of the lowest page that has one. [`reserve`](Self::reserve) must have
    /// been called.
    #[inline(always)]
    pub(in crate::wheel) fn allocate_reserved(&mut self) -> (u32, &mut P, usize) {
        let at = self.lowest;
        let offset = usize::from(self.states[at].first_free) % P::LEN;
        let index = index::<P>(at, offset);
        let next = self.at(index).0.next_free(offset);
        let state = &mut self.states[at];
        state.first_free = next;
        self.empty -= usize::from(state.in_use == 0);
        state.in_use += 1;
        (index, self.at_mut(index).0, offset)
    }

    #[cold]
    #[inline(never)]
    fn find_page_with_room(&mut self, limit: u32) {
        self.lowest = self.lowest_with_room().unwrap_or_else(|| {
            let at = self.pages.len();
            // Set `lowest` first: if the assertion below panics, `lowest` must not refer to one of the pages,
            // which are all full.
            self.lowest = at;
            assert!(at * P::LEN < limit as usize, "the limit of {limit} entries is reached");
            let blank = self.blank();
            self.pages.push(blank);
            self.states.push(PageState {
                is_allocated: false,
                generation: 2,
                first_free: end_of_free_list::<P>(),
                in_use: 0,
            });
            self.room.insert(at);
            at
        });
        let state = &mut self.states[self.lowest];
        if !state.is_allocated {
            self.pages[self.lowest] = leak(P::new_free(state.generation));
            (state.is_allocated, state.first_free) = (true, 0);
            self.allocated += 1;
            self.empty += 1;
        }
    }

    fn lowest_with_room(&mut self) -> Option<usize> {
        while let Some(at) = self.room.lowest() {
            let state = &self.states[at];
            if !state.is_allocated || !is_full::<P>(state) {
                return Some(at);
            }
            self.room.remove(at);
        }
        None
    }

    /// Frees an entry that is in use. `finish` produces the result. `on_page_freed` is called with the page
    /// if the page is about to be freed.
    #[inline(always)]
    pub(in crate::wheel) fn free<R>(
        &mut self,
        index: u32,
        finish: impl FnOnce(&mut P, usize) -> R,
        on_page_freed: impl FnOnce(&P),
    ) -> R {
        let (at, offset) = split::<P>(index);
        let state = &mut self.states[at];
        // SAFETY: As for `at_mut`.
        let page = unsafe { self.pages[at].as_mut() };
        let result = finish(page, offset);
        if page.is_retired(offset) {
            return result;
        }
        page.set_next_free(offset, state.first_free);
        if is_full::<P>(state) && at != self.lowest {
            self.room.insert(at);
        }
        state.first_free = u16::try_from(offset).expect("an offset in a page");
        state.in_use -= 1;
        if state.in_use == 0 {
            if self.empty < MAX_SPARE_PAGES {
                self.empty += 1;
            } else {
                on_page_freed(page);
                self.release_page(at);
            }
        }
        self.lowest = self.lowest.min(at);
        result
    }

    fn blank(&mut self) -> NonNull<P> {
        *self.blank.get_or_insert_with(|| leak(P::new_free(0)))
    }

    #[cold]
    fn release_page(&mut self, at: usize) {
        let blank = self.blank();
        let page = core::mem::replace(&mut self.pages[at], blank);
        // SAFETY: The page was created as a `Box`, the pool owns it, and no reference to it is left.
        let page = unsafe { Box::from_raw(page.as_ptr()) };
        let state = &mut self.states[at];
        state.generation = page.generation();
        (state.is_allocated, state.first_free) = (false, end_of_free_list::<P>());
        self.allocated -= 1;
    }

    /// Returns the page of an index, or the blank page, and the offset of the index in it.
    ///
    /// # Panics
    ///
    /// Panics if there has never been a page for this index.
    #[inline(always)]
    pub(in crate::wheel) fn at(&self, index: u32) -> (&P, usize) {
        let (at, offset) = split::<P>(index);
        // SAFETY: `pages` holds pages that the pool owns, and none of them can be freed while the pool is
        // borrowed.
        (unsafe { self.pages[at].as_ref() }, offset)
    }

    /// Returns the page of an index, or the blank page, and the offset of the index in it.
    ///
    /// # Panics
    ///
    /// Panics if there has never been a page for this index.
    #[inline(always)]
    pub(in crate::wheel) fn at_mut(&mut self, index: u32) -> (&mut P, usize) {
        let (at, offset) = split::<P>(index);
        // SAFETY: As for `at`. The blank page is in several positions, but only one of them can be borrowed
        // at a time.
        (unsafe { self.pages[at].as_mut() }, offset)
    }

    /// Like [`at`](Self::at), but accepts any index and returns `None` if there has never been a page for it.
    #[inline(always)]
    pub(in crate::wheel) fn find(&self, index: u32) -> Option<(&P, usize)> {
        let (at, offset) = split::<P>(index);
        // SAFETY: As for `at`.
        Some((unsafe { self.pages.get(at)?.as_ref() }, offset))
    }

    #[inline(always)]
    pub(in crate::wheel) fn find_mut(&mut self, index: u32) -> Option<(&mut P, usize)> {
        let (at, offset) = split::<P>(index);
        // SAFETY: As for `at_mut`.
        Some((unsafe { self.pages.get_mut(at)?.as_mut() }, offset))
    }

    pub(in crate::wheel) fn page_count(&self) -> usize {
        self.allocated
    }

    pub(in crate::wheel) fn pages_mut(&mut self) -> impl Iterator<Item = &mut P> {
        let there = self.pages.iter_mut().zip(&self.states).filter(|(_, state)| state.is_allocated);
        // SAFETY: As for `at_mut`. Allocated pages are distinct from one another.
        there.map(|(page, _)| unsafe { page.as_mut() })
    }
}

impl<P: PoolPage> Drop for Pool<P> {
    fn drop(&mut self) {
        let there = self.pages.iter().zip(&self.states).filter(|(_, state)| state.is_allocated);
        for page in there.map(|(page, _)| page).chain(&self.blank) {
            // SAFETY: The page was created as a `Box`, the pool owns it, and the iterator yields each page
            // once.
            drop(unsafe { Box::from_raw(page.as_ptr()) });
        }
    }
}

impl<P: PoolPage> core::fmt::Debug for Pool<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pool").field("allocated", &self.allocated).finish_non_exhaustive()
    }
}

fn leak<P>(page: Box<P>) -> NonNull<P> {
    NonNull::from(Box::leak(page))
}

fn is_full<P: PoolPage>(state: &PageState) -> bool {
    state.first_free == end_of_free_list::<P>()
}

fn end_of_free_list<P: PoolPage>() -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "below 2^16, as asserted for every pool")]
    let end = P::LEN as u16;
    end
}

#[inline(always)]
fn split<P: PoolPage>(index: u32) -> (usize, usize) {
    (index as usize / P::LEN, index as usize % P::LEN)
}

#[inline(always)]
fn index<P: PoolPage>(at: usize, offset: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "every index is below the limit, a u32")]
    let index = (at * P::LEN + offset) as u32;
    index
}
