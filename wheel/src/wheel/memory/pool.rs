//! Memory by index, in pages: the lowest page with room is filled first, so that the highest run empty and can be given back.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr::NonNull;

use super::room::Room;

#[cfg(test)]
mod check;

/// So many entries at once.
pub(in crate::wheel) trait Page: Sized {
    /// How many: a power of two, below 2^16.
    const LEN: usize;

    /// A page of free entries: the next one after each is its neighbour. `generation` is what the page that was there before
    /// has told, or 2 for the first, or 0 for one of which nothing will be used.
    fn bring(generation: u32) -> Box<Self>;
    /// The free entry after this free one.
    fn next_free(&self, place: usize) -> u16;
    fn set_next_free(&mut self, place: usize, next: u16);
    /// Whether this entry, which was in use, is never to be used again.
    fn is_retired(&self, place: usize) -> bool;
    /// What the page that comes here after this one is to know.
    fn generation(&self) -> u32;
}

/// So many empty pages are kept, so that what comes and goes does not bring a page each time.
const SPARE: usize = 8;

/// See the [module](self).
pub(in crate::wheel) struct Pool<P: Page> {
    /// Where there is no page, there is `blank`: whoever looks something up need not ask.
    ///
    /// **Each was made by [`Page::bring`], is owned by the pool, and lives until the pool lets it go from here.**
    pages: Vec<NonNull<P>>,
    states: Vec<State>,
    /// A page of which nothing is ever used.
    blank: Option<NonNull<P>>,
    room: Room,
    /// Entries are taken from this page; none below has room. So what came free last is often taken next, while it is in the cache.
    lowest: usize,
    /// Pages that are there.
    held: usize,
    /// Pages of which nothing is in use, at most [`SPARE`].
    empty: usize,
}

// SAFETY: The pool owns its pages, as a `Box` would.
unsafe impl<P: Page + Send> Send for Pool<P> {}
// SAFETY: As above: `&Pool` gives out `&P`, and nothing else.
unsafe impl<P: Page + Sync> Sync for Pool<P> {}

#[derive(Debug)]
struct State {
    is_there: bool,
    generation: u32,
    /// The page's length, if none is free, or the page is not there.
    first_free: u16,
    in_use: u16,
}

impl<P: Page> Pool<P> {
    pub(in crate::wheel) const fn new() -> Self {
        const { assert!(P::LEN.is_power_of_two() && P::LEN < 1 << u16::BITS) }
        Pool {
            pages: Vec::new(),
            states: Vec::new(),
            blank: None,
            room: Room::new(),
            lowest: 0,
            held: 0,
            empty: 0,
        }
    }

    /// Takes a free entry: its index, its page, and its place in that.
    ///
    /// # Panics
    /// When all indices below `limit` are in use.
    #[inline(always)]
    pub(in crate::wheel) fn take(&mut self, limit: u32) -> (u32, &mut P, usize) {
        self.make_room(limit);
        self.take_there()
    }

    /// Sees to it that one more may be taken.
    ///
    /// # Panics
    /// When all indices below `limit` are in use.
    #[inline(always)]
    pub(in crate::wheel) fn make_room(&mut self, limit: u32) {
        if self.states.get(self.lowest).is_none_or(is_full::<P>) {
            self.find_room(limit);
        }
    }

    /// Takes the first free entry of the lowest page with room, which there is.
    #[inline(always)]
    pub(in crate::wheel) fn take_there(&mut self) -> (u32, &mut P, usize) {
        let at = self.lowest;
        let place = usize::from(self.states[at].first_free) % P::LEN;
        let index = index::<P>(at, place);
        let next = self.at(index).0.next_free(place);
        let state = &mut self.states[at];
        state.first_free = next;
        self.empty -= usize::from(state.in_use == 0);
        state.in_use += 1;
        (index, self.at_mut(index).0, place)
    }

    #[cold]
    #[inline(never)]
    fn find_room(&mut self, limit: u32) {
        self.lowest = self.lowest_with_room().unwrap_or_else(|| {
            let at = self.pages.len();
            // Should this panic, all pages are full, and none of them is known to have room.
            self.lowest = at;
            assert!(at * P::LEN < limit as usize, "at most {limit} at a time");
            let blank = self.blank();
            self.pages.push(blank);
            self.states.push(State { is_there: false, generation: 2, first_free: end::<P>(), in_use: 0 });
            self.room.insert(at);
            at
        });
        let state = &mut self.states[self.lowest];
        if !state.is_there {
            self.pages[self.lowest] = own(P::bring(state.generation));
            (state.is_there, state.first_free) = (true, 0);
            self.held += 1;
            self.empty += 1;
        }
    }

    fn lowest_with_room(&mut self) -> Option<usize> {
        while let Some(at) = self.room.lowest() {
            let state = &self.states[at];
            if !state.is_there || !is_full::<P>(state) {
                return Some(at);
            }
            self.room.remove(at);
        }
        None
    }

    /// Gives an entry back that was in use. `end` makes an end of it, and `goes` is told its page if that goes. Returns what `end` does.
    #[inline(always)]
    pub(in crate::wheel) fn give_back<R>(
        &mut self,
        index: u32,
        end: impl FnOnce(&mut P, usize) -> R,
        goes: impl FnOnce(&P),
    ) -> R {
        let (at, place) = split::<P>(index);
        let state = &mut self.states[at];
        // SAFETY: As for `at_mut`.
        let page = unsafe { self.pages[at].as_mut() };
        let ended = end(page, place);
        if page.is_retired(place) {
            return ended;
        }
        page.set_next_free(place, state.first_free);
        if is_full::<P>(state) && at != self.lowest {
            self.room.insert(at);
        }
        state.first_free = u16::try_from(place).expect("a place in a page");
        state.in_use -= 1;
        if state.in_use == 0 {
            if self.empty < SPARE {
                self.empty += 1;
            } else {
                goes(page);
                self.let_go(at);
            }
        }
        self.lowest = self.lowest.min(at);
        ended
    }

    fn blank(&mut self) -> NonNull<P> {
        *self.blank.get_or_insert_with(|| own(P::bring(0)))
    }

    #[cold]
    fn let_go(&mut self, at: usize) {
        let blank = self.blank();
        let page = core::mem::replace(&mut self.pages[at], blank);
        // SAFETY: It was brought as a `Box`, the pool owns it, and nothing leads to it any more.
        let page = unsafe { Box::from_raw(page.as_ptr()) };
        let state = &mut self.states[at];
        state.generation = page.generation();
        (state.is_there, state.first_free) = (false, end::<P>());
        self.held -= 1;
    }

    /// The page of an index, or a blank one, and its place in that.
    ///
    /// # Panics
    /// If there never was one with this index.
    #[inline(always)]
    pub(in crate::wheel) fn at(&self, index: u32) -> (&P, usize) {
        let (at, place) = split::<P>(index);
        // SAFETY: What is in `pages` is a page that the pool owns, and it cannot go as long as the pool is borrowed.
        (unsafe { self.pages[at].as_ref() }, place)
    }

    /// The page of an index, or a blank one, and its place in that.
    ///
    /// # Panics
    /// If there never was one with this index.
    #[inline(always)]
    pub(in crate::wheel) fn at_mut(&mut self, index: u32) -> (&mut P, usize) {
        let (at, place) = split::<P>(index);
        // SAFETY: As above. The blank page is in many places, but only one can be borrowed.
        (unsafe { self.pages[at].as_mut() }, place)
    }

    /// The page of an index that may be anything.
    #[inline(always)]
    pub(in crate::wheel) fn find(&self, index: u32) -> Option<(&P, usize)> {
        let (at, place) = split::<P>(index);
        // SAFETY: As for `at`.
        Some((unsafe { self.pages.get(at)?.as_ref() }, place))
    }

    /// The page of an index that may be anything.
    #[inline(always)]
    pub(in crate::wheel) fn find_mut(&mut self, index: u32) -> Option<(&mut P, usize)> {
        let (at, place) = split::<P>(index);
        // SAFETY: As for `at_mut`.
        Some((unsafe { self.pages.get_mut(at)?.as_mut() }, place))
    }

    /// How many pages are there.
    pub(in crate::wheel) fn pages_held(&self) -> usize {
        self.held
    }

    /// Every page that is there.
    pub(in crate::wheel) fn pages_mut(&mut self) -> impl Iterator<Item = &mut P> {
        let there = self.pages.iter_mut().zip(&self.states).filter(|(_, state)| state.is_there);
        // SAFETY: As for `at_mut`. Pages that are there are different ones.
        there.map(|(page, _)| unsafe { page.as_mut() })
    }
}

impl<P: Page> Drop for Pool<P> {
    fn drop(&mut self) {
        let there = self.pages.iter().zip(&self.states).filter(|(_, state)| state.is_there);
        for page in there.map(|(page, _)| page).chain(&self.blank) {
            // SAFETY: It was brought as a `Box`, the pool owns it, and each is here once.
            drop(unsafe { Box::from_raw(page.as_ptr()) });
        }
    }
}

impl<P: Page> core::fmt::Debug for Pool<P> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pool").field("held", &self.held).finish_non_exhaustive()
    }
}

fn own<P>(page: Box<P>) -> NonNull<P> {
    NonNull::from(Box::leak(page))
}

fn is_full<P: Page>(state: &State) -> bool {
    state.first_free == end::<P>()
}

/// Ends the list of a page's free entries.
fn end<P: Page>() -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "below 2^16, as asserted for every pool")]
    let end = P::LEN as u16;
    end
}

#[inline(always)]
fn split<P: Page>(index: u32) -> (usize, usize) {
    (index as usize / P::LEN, index as usize % P::LEN)
}

#[inline(always)]
fn index<P: Page>(at: usize, place: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "no page begins at or above the limit, a u32")]
    let index = (at * P::LEN + place) as u32;
    index
}
