//! Memory by index, in pages: the lowest page with room is filled first, so that the highest run empty and can be given back.

use alloc::boxed::Box;
use alloc::vec::Vec;

#[cfg(test)]
mod check;

/// So many entries at once.
pub(super) trait Page: Sized {
    /// How many: a power of two, below 2^16.
    const LEN: usize;

    /// A page of free entries: the next one after each is its neighbour. `generation` is what the page that was there before
    /// has told, or 1.
    fn bring(generation: u32) -> Box<Self>;
    /// The free entry after this free one.
    fn next_free(&self, place: usize) -> u16;
    fn set_next_free(&mut self, place: usize, next: u16);
    /// Whether this entry is never to be used again.
    fn is_retired(&self, place: usize) -> bool;
    /// What the page that comes here after this one is to know.
    fn generation(&self) -> u32;
}

/// So many empty pages are kept, so that timers that come and go do not bring a page each time.
const SPARE: usize = 8;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Pool<P> {
    pages: Vec<Held<P>>,
    room: Room,
    /// Entries are taken from this page; none below has room. So what came free last is often taken next, while it is in the cache.
    lowest: usize,
    /// Pages that are there.
    held: usize,
    /// Pages of which nothing is in use, at most [`SPARE`].
    empty: usize,
}

#[derive(Debug)]
struct Held<P> {
    page: Option<Box<P>>,
    generation: u32,
    /// The page's length, if none is free, or the page is not there.
    first_free: u16,
    in_use: u16,
}

impl<P: Page> Pool<P> {
    pub(super) const fn new() -> Self {
        const { assert!(P::LEN.is_power_of_two() && P::LEN < 1 << u16::BITS) }
        Pool { pages: Vec::new(), room: Room::new(), lowest: 0, held: 0, empty: 0 }
    }

    /// Takes a free entry: its index, its page, and its place in that.
    ///
    /// # Panics
    /// When all indices below `limit` are in use.
    #[inline(always)]
    pub(super) fn take(&mut self, limit: u32) -> (u32, &mut P, usize) {
        if self.pages.get(self.lowest).is_none_or(is_full) {
            return self.take_elsewhere(limit);
        }
        self.take_there()
    }

    #[cold]
    #[inline(never)]
    fn take_elsewhere(&mut self, limit: u32) -> (u32, &mut P, usize) {
        self.make_room(limit);
        self.take_there()
    }

    /// Takes the first free entry of the lowest page with room.
    #[inline(always)]
    fn take_there(&mut self) -> (u32, &mut P, usize) {
        let at = self.lowest;
        let held = &mut self.pages[at];
        let Some(page) = &mut held.page else { no_page() };
        let place = usize::from(held.first_free) % P::LEN;
        held.first_free = page.next_free(place);
        self.empty -= usize::from(held.in_use == 0);
        held.in_use += 1;
        (index::<P>(at, place), page, place)
    }

    fn make_room(&mut self, limit: u32) {
        self.lowest = self.lowest_with_room().unwrap_or_else(|| {
            let at = self.pages.len();
            // Should this panic, all pages are full, and none of them is known to have room.
            self.lowest = at;
            assert!(at * P::LEN < limit as usize, "at most {limit} at a time");
            self.pages.push(Held { page: None, generation: 1, first_free: end::<P>(), in_use: 0 });
            self.room.insert(at);
            at
        });
        let held = &mut self.pages[self.lowest];
        if held.page.is_none() {
            held.page = Some(P::bring(held.generation));
            held.first_free = 0;
            self.held += 1;
            self.empty += 1;
        }
    }

    fn lowest_with_room(&mut self) -> Option<usize> {
        while let Some(at) = self.room.lowest() {
            let held = &self.pages[at];
            if held.page.is_none() || !is_full(held) {
                return Some(at);
            }
            self.room.remove(at);
        }
        None
    }

    /// Gives an entry back that was in use.
    #[inline(always)]
    pub(super) fn give_back(&mut self, index: u32) {
        let Some(()) = self.give_back_if(index, |_, _| Some(())) else { no_page() };
    }

    /// Gives an entry back if something is taken out of it. The index may be anything.
    #[inline(always)]
    pub(super) fn give_back_if<R>(
        &mut self,
        index: u32,
        take: impl FnOnce(&mut P, usize) -> Option<R>,
    ) -> Option<R> {
        let (at, place) = split::<P>(index);
        let held = self.pages.get_mut(at)?;
        let page = held.page.as_deref_mut()?;
        let taken = take(page, place)?;
        if page.is_retired(place) {
            return Some(taken);
        }
        page.set_next_free(place, held.first_free);
        if is_full(held) && at != self.lowest {
            self.room.insert(at);
        }
        held.first_free = u16::try_from(place).expect("a place in a page");
        held.in_use -= 1;
        if held.in_use == 0 {
            self.emptied(at);
        }
        self.lowest = self.lowest.min(at);
        Some(taken)
    }

    #[cold]
    fn emptied(&mut self, at: usize) {
        if self.empty < SPARE {
            self.empty += 1;
            return;
        }
        let held = &mut self.pages[at];
        if let Some(page) = held.page.take() {
            held.generation = page.generation();
            held.first_free = end::<P>();
            self.held -= 1;
        }
    }

    /// The page of an entry in use, and its place in that.
    #[inline(always)]
    pub(super) fn at(&self, index: u32) -> (&P, usize) {
        let (at, place) = split::<P>(index);
        let Some(page) = &self.pages[at].page else { no_page() };
        (page, place)
    }

    /// The page of an entry in use, and its place in that.
    #[inline(always)]
    pub(super) fn at_mut(&mut self, index: u32) -> (&mut P, usize) {
        let (at, place) = split::<P>(index);
        let Some(page) = &mut self.pages[at].page else { no_page() };
        (page, place)
    }

    /// The page of an index that may be anything.
    #[inline(always)]
    pub(super) fn find(&self, index: u32) -> Option<(&P, usize)> {
        let (at, place) = split::<P>(index);
        Some((self.pages.get(at)?.page.as_deref()?, place))
    }

    /// The page of an index that may be anything.
    #[inline(always)]
    pub(super) fn find_mut(&mut self, index: u32) -> Option<(&mut P, usize)> {
        let (at, place) = split::<P>(index);
        Some((self.pages.get_mut(at)?.page.as_deref_mut()?, place))
    }

    /// How many pages are there.
    pub(super) fn pages_held(&self) -> usize {
        self.held
    }

    /// The first index of the page after that of this index, if there ever was one.
    pub(super) fn next_page(&self, of: u32) -> Option<u32> {
        let next = split::<P>(of).0 + 1;
        (next < self.pages.len()).then(|| index::<P>(next, 0))
    }

    /// Every page that is there.
    pub(super) fn pages_mut(&mut self) -> impl Iterator<Item = &mut P> {
        self.pages.iter_mut().filter_map(|held| held.page.as_deref_mut())
    }
}

fn is_full<P: Page>(held: &Held<P>) -> bool {
    held.first_free == end::<P>()
}

/// Ends the list of a page's free entries.
fn end<P: Page>() -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "below 2^16, as asserted for every pool")]
    let end = P::LEN as u16;
    end
}

fn split<P: Page>(index: u32) -> (usize, usize) {
    (index as usize / P::LEN, index as usize % P::LEN)
}

fn index<P: Page>(at: usize, place: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "no page begins at or above the limit, a u32")]
    let index = (at * P::LEN + place) as u32;
    index
}

#[cold]
fn no_page() -> ! {
    unreachable!("what is in use has its page")
}

/// The pages with a free entry, and some that are full by now: whether they are is seen when they are looked for, since the last
/// entry of a page comes and goes often. A bit each, and a bit for each 64 of those.
#[derive(Debug)]
struct Room {
    pages: Vec<u64>,
    words: Vec<u64>,
}

const BITS: usize = u64::BITS as usize;

impl Room {
    const fn new() -> Self {
        Room { pages: Vec::new(), words: Vec::new() }
    }

    fn insert(&mut self, page: usize) {
        set(&mut self.pages, page);
        set(&mut self.words, page / BITS);
    }

    fn remove(&mut self, page: usize) {
        let word = page / BITS;
        self.pages[word] &= !(1 << (page % BITS));
        if self.pages[word] == 0 {
            self.words[word / BITS] &= !(1 << (word % BITS));
        }
    }

    /// Reads one word for every 4096 pages until it finds one.
    fn lowest(&self) -> Option<usize> {
        let (at, word) = self.words.iter().enumerate().find(|(_, word)| **word != 0)?;
        let word = at * BITS + word.trailing_zeros() as usize;
        Some(word * BITS + self.pages[word].trailing_zeros() as usize)
    }
}

fn set(words: &mut Vec<u64>, bit: usize) {
    let word = bit / BITS;
    if word >= words.len() {
        words.resize(word + 1, 0);
    }
    words[word] |= 1 << (bit % BITS);
}
