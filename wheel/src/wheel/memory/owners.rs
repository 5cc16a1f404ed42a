//! The memory of all owners: what the wheel knows of their timers, and their values, found by index.
//!
//! It rests on a single invariant, which nothing outside of it can break: **the value at an index is initialized exactly while the
//! generation of its record is odd.**

use alloc::boxed::Box;
use core::array;
use core::mem::{forget, needs_drop};
use core::num::NonZeroU32;

use super::layout::{Cells as _, Layout};
use super::pool::{Page, Pool};
use super::prefetch::prefetch;
use crate::wheel::state::State;
use crate::{Tick, TimerKey};

#[cfg(test)]
mod check;

/// How many owners a page has. Tests do without the thousands it takes to fill usual ones.
pub(in crate::wheel) const PAGE: usize = if cfg!(any(test, miri)) { 16 } else { 256 };

/// How many timers there may be.
const LIMIT: u32 = 1 << 30;

/// What the wheel knows of an owner besides its value.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(in crate::wheel) struct Record<const K: usize> {
    /// Of armed timers. While the record is free, the first leads to the next free one of its page.
    pub(in crate::wheel) deadlines: [Tick; K],
    /// Where the timers' entries stand, also while the record is free.
    pub(in crate::wheel) states: [State; K],
    /// Odd while the record is in use. So the key of an owner that is gone never matches, and neither does any while it is free.
    generation: u32,
}

impl<const K: usize> Record<K> {
    #[inline(always)]
    pub(in crate::wheel) fn generation(&self) -> NonZeroU32 {
        NonZeroU32::new(self.generation).expect("it is in use")
    }
}

/// An entry is the index of an owner, and which of its timers it is: so many bits for that.
const fn shift<const K: usize>() -> u32 {
    K.next_power_of_two().trailing_zeros()
}

/// The entry of an owner's timer.
#[inline(always)]
pub(in crate::wheel) fn entry<const K: usize>(index: u32, which: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 256")]
    let which = which as u32;
    index << const { shift::<K>() } | which
}

#[inline(always)]
fn split<const K: usize>(entry: u32) -> (u32, usize) {
    (entry >> const { shift::<K>() }, entry as usize % K.next_power_of_two())
}

/// A page of owners.
#[derive(Debug)]
#[repr(transparent)]
struct PageOf<T, const K: usize, L: Layout>(L::Cells<T, K>);

/// See the [module](self).
#[derive(Debug)]
pub(in crate::wheel) struct Owners<T, const K: usize, L: Layout> {
    pool: Pool<PageOf<T, K, L>>,
    len: usize,
    most_holes: usize,
}

impl<T, const K: usize, L: Layout> Owners<T, K, L> {
    /// What an owner takes in its page.
    pub(in crate::wheel) const BYTES_EACH: usize = L::Cells::<T, K>::BYTES_EACH;

    pub(in crate::wheel) const fn new() -> Self {
        const { assert!(K > 0 && K <= 256, "an owner has 1 to 256 timers") }
        Owners { pool: Pool::new(), len: 0, most_holes: 0 }
    }

    pub(in crate::wheel) fn len(&self) -> usize {
        self.len
    }

    /// Half as many as the pages that are there have room for timers.
    #[inline(always)]
    pub(in crate::wheel) fn most_holes(&self) -> usize {
        self.most_holes
    }

    /// A page may have come or gone. What follows from that is looked at far more often.
    #[inline(always)]
    fn count_room(&mut self) {
        self.most_holes = self.pool.pages_held() * PAGE * K / 2;
    }

    /// # Panics
    /// If there are 2^30 timers.
    #[inline(always)]
    pub(in crate::wheel) fn insert(&mut self, value: T) -> (u32, &mut Record<K>, &mut T) {
        self.pool.make_room(LIMIT >> shift::<K>());
        self.len += 1;
        self.count_room();
        let (index, page, place) = self.pool.take_there();
        let (record, room) = page.0.both_mut(place);
        debug_assert!(record.generation.is_multiple_of(2), "it was free");
        record.generation += 1;
        (index, record, room.write(value))
    }

    /// Ends an owner, unless the key is stale. Tells how many entries of its page do not count any more if that goes.
    #[inline(always)]
    pub(in crate::wheel) fn remove(&mut self, key: TimerKey) -> Option<(T, usize)> {
        let (page, place) = self.pool.find(key.index)?;
        (page.0.record(place).generation == key.generation.get()).then(|| self.end(key.index))
    }

    /// Ends the owner of an index that is in use.
    #[inline(always)]
    fn end(&mut self, index: u32) -> (T, usize) {
        let end = |page: &mut PageOf<T, K, L>, place| {
            let (record, value) = page.0.both_mut(place);
            assert!(record.generation % 2 == 1, "it is in use");
            record.generation = record.generation.wrapping_add(1);
            record.states = record.states.map(State::disarmed);
            // SAFETY: The generation was odd, so the value is initialized. It is even now: the value is not read again.
            unsafe { value.assume_init_read() }
        };
        let mut left_behind = 0;
        let value = self.pool.give_back(index, end, |page| left_behind = page.entries());
        self.len -= 1;
        self.count_room();
        (value, left_behind)
    }

    /// The owner that a key names, unless it is stale.
    #[inline(always)]
    pub(in crate::wheel) fn find(&self, key: TimerKey) -> Option<(&Record<K>, &T)> {
        let (page, place) = self.pool.find(key.index)?;
        let (record, value) = page.0.both(place);
        // SAFETY: The generation of a key is odd, so the value is initialized.
        (record.generation == key.generation.get()).then(|| (record, unsafe { value.assume_init_ref() }))
    }

    /// The owner that a key names, unless it is stale.
    #[inline(always)]
    pub(in crate::wheel) fn find_mut(&mut self, key: TimerKey) -> Option<(&mut Record<K>, &mut T)> {
        let (page, place) = self.pool.find_mut(key.index)?;
        let (record, value) = page.0.both_mut(place);
        // SAFETY: The generation of a key is odd, so the value is initialized.
        (record.generation == key.generation.get()).then(|| (record, unsafe { value.assume_init_mut() }))
    }

    /// The timer of an entry.
    #[inline(always)]
    pub(in crate::wheel) fn timer(&mut self, entry: u32) -> (&mut Tick, &mut State) {
        let (index, which) = split::<K>(entry);
        let (page, place) = self.pool.at_mut(index);
        let (record, _) = page.0.both_mut(place);
        (&mut record.deadlines[which], &mut record.states[which])
    }

    #[inline(always)]
    pub(in crate::wheel) fn state(&self, entry: u32) -> State {
        let (index, which) = split::<K>(entry);
        let (page, place) = self.pool.at(index);
        page.0.record(place).states[which]
    }

    /// The owner of an entry that counts, and which of its timers it is.
    #[inline(always)]
    pub(in crate::wheel) fn owner(&mut self, entry: u32) -> (u32, usize, &mut Record<K>, &mut T) {
        let (index, which) = split::<K>(entry);
        let (page, place) = self.pool.at_mut(index);
        let (record, value) = page.0.both_mut(place);
        assert!(record.generation % 2 == 1, "it is in use");
        // SAFETY: The generation is odd, so the value is initialized.
        (index, which, record, unsafe { value.assume_init_mut() })
    }

    /// Ends the owner of an entry that counts. Returns the key it had, its deadline, and its value; and how many entries of its page
    /// do not count any more if that goes.
    #[inline(always)]
    pub(in crate::wheel) fn expire(&mut self, entry: u32) -> (TimerKey, Tick, T, usize) {
        let (index, which, record, _) = self.owner(entry);
        let (generation, deadline) = (record.generation(), record.deadlines[which]);
        record.states[which] = State::NOWHERE;
        let (value, left_behind) = self.end(index);
        (TimerKey { index, generation }, deadline, value, left_behind)
    }

    /// Fetches an owner of which a timer will soon expire.
    #[inline(always)]
    pub(in crate::wheel) fn prefetch(&self, entry: u32) {
        let (page, place) = self.pool.at(split::<K>(entry).0);
        let (record, value) = page.0.both(place);
        prefetch(record);
        prefetch(value);
    }
}

impl<T, const K: usize, L: Layout> PageOf<T, K, L> {
    fn records(&self) -> impl Iterator<Item = &Record<K>> {
        (0..PAGE).map(|place| self.0.record(place))
    }

    /// How many entries name timers of this page, and count.
    fn entries(&self) -> usize {
        self.records().flat_map(|record| record.states).filter(|state| *state != State::NOWHERE).count()
    }
}

impl<T, const K: usize, L: Layout> Page for PageOf<T, K, L> {
    const LEN: usize = PAGE;

    fn bring(generation: u32) -> Box<Self> {
        let mut page = Box::<Self>::new_uninit();
        let this = page.as_mut_ptr().cast::<L::Cells<T, K>>();
        for place in 0..PAGE {
            let next = Tick(place as u64 + 1);
            let record =
                Record { deadlines: [next; K], states: array::from_fn(|_| State::NOWHERE), generation };
            // SAFETY: `this` is the page, which has nothing else, and valid for writes.
            unsafe { L::Cells::<T, K>::unwritten(this, place).write(record) };
        }
        // SAFETY: Every record was written, and no value need be.
        unsafe { page.assume_init() }
    }

    #[expect(clippy::cast_possible_truncation, reason = "what was stored was one")]
    fn next_free(&self, place: usize) -> u16 {
        self.0.record(place).deadlines[0].0 as u16
    }

    fn set_next_free(&mut self, place: usize, next: u16) {
        self.0.both_mut(place).0.deadlines[0] = Tick(next.into());
    }

    /// An index without generations is retired, so that none of its keys can ever name another owner.
    #[inline]
    fn is_retired(&self, place: usize) -> bool {
        self.0.record(place).generation == 0
    }

    fn generation(&self) -> u32 {
        self.records().map(|record| record.generation).max().expect("a page is not empty")
    }
}

impl<T, const K: usize, L: Layout> Owners<T, K, L> {
    /// Drops all values that are left.
    fn drop_values(&mut self) {
        for page in self.pool.pages_mut() {
            for place in 0..PAGE {
                let (record, value) = page.0.both_mut(place);
                if record.generation % 2 == 1 {
                    record.generation = 0;
                    // SAFETY: The generation was odd, so the value is initialized, and it is even now.
                    unsafe { value.assume_init_drop() };
                }
            }
        }
    }
}

impl<T, const K: usize, L: Layout> Drop for Owners<T, K, L> {
    fn drop(&mut self) {
        /// Should one of the values panic, the others are dropped all the same.
        struct Rest<'a, T, const K: usize, L: Layout>(&'a mut Owners<T, K, L>);

        impl<T, const K: usize, L: Layout> Drop for Rest<'_, T, K, L> {
            fn drop(&mut self) {
                self.0.drop_values();
            }
        }

        if needs_drop::<T>() {
            let rest = Rest(self);
            rest.0.drop_values();
            forget(rest);
        }
    }
}
