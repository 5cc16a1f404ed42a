//! The memory of all owners, addressed by index: the state of their timers, and their values.
//!
//! The code relies on a single invariant, which no code outside this module can break: **the value at an
//! index is initialized if and only if the generation of its record is odd.**

use alloc::boxed::Box;
use core::array;
use core::mem::{forget, needs_drop};
use core::num::NonZeroU32;

use super::layout::{Cells as _, ValueLayout};
use super::pool::{Pool, PoolPage};
use super::prefetch::prefetch;
use crate::wheel::timer_state::TimerState;
use crate::{Tick, TimerKey};

#[cfg(test)]
mod check;

/// Number of owners in a page. Smaller in tests, which would otherwise need thousands of owners to fill a few
/// pages.
pub(in crate::wheel) const OWNERS_PER_PAGE: usize = if cfg!(any(test, miri)) { 16 } else { 256 };

const MAX_TIMERS: u32 = 1 << 30;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(in crate::wheel) struct Record<const K: usize> {
    /// Deadlines of armed timers. In a free record, the first element holds the offset of the next free
    /// record of the page.
    pub(in crate::wheel) deadlines: [Tick; K],
    /// Location of each timer's entry, valid even while the record is free.
    pub(in crate::wheel) states: [TimerState; K],
    /// Number that increases when the record is allocated and when it is freed: odd while it is in use. A key
    /// has an odd generation, so a stale key never matches, and no key matches a free record.
    generation: u32,
}

impl<const K: usize> Record<K> {
    #[inline(always)]
    pub(in crate::wheel) fn generation(&self) -> NonZeroU32 {
        NonZeroU32::new(self.generation).expect("the record is in use")
    }
}

/// Number of low bits of an entry that hold the index of the timer. The other bits hold the index of the
/// owner.
const fn shift<const K: usize>() -> u32 {
    K.next_power_of_two().trailing_zeros()
}

#[inline(always)]
pub(in crate::wheel) fn entry<const K: usize>(index: u32, timer: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "at most 256")]
    let timer = timer as u32;
    index << const { shift::<K>() } | timer
}

#[inline(always)]
fn split<const K: usize>(entry: u32) -> (u32, usize) {
    (entry >> const { shift::<K>() }, entry as usize % K.next_power_of_two())
}

#[derive(Debug)]
#[repr(transparent)]
struct OwnerPage<T, const K: usize, L: ValueLayout>(L::Cells<T, K>);

#[derive(Debug)]
pub(in crate::wheel) struct OwnerMemory<T, const K: usize, L: ValueLayout> {
    pool: Pool<OwnerPage<T, K, L>>,
    len: usize,
    max_holes: usize,
}

impl<T, const K: usize, L: ValueLayout> OwnerMemory<T, K, L> {
    pub(in crate::wheel) const BYTES_EACH: usize = L::Cells::<T, K>::BYTES_EACH;

    pub(in crate::wheel) const fn new() -> Self {
        const { assert!(K > 0 && K <= 256, "an owner has 1 to 256 timers") }
        OwnerMemory { pool: Pool::new(), len: 0, max_holes: 0 }
    }

    pub(in crate::wheel) fn len(&self) -> usize {
        self.len
    }

    /// Returns half the number of timers that the allocated pages can hold.
    #[inline(always)]
    pub(in crate::wheel) fn max_holes(&self) -> usize {
        self.max_holes
    }

    /// Recomputes `max_holes` when a page may have been allocated or freed. The value is read far more often.
    #[inline(always)]
    fn update_max_holes(&mut self) {
        self.max_holes = self.pool.page_count() * OWNERS_PER_PAGE * K / 2;
    }

    /// # Panics
    ///
    /// Panics if there are already 2^30 timers.
    #[inline(always)]
    pub(in crate::wheel) fn insert(&mut self, value: T) -> (u32, &mut Record<K>, &mut T) {
        self.pool.reserve(MAX_TIMERS >> shift::<K>());
        self.len += 1;
        self.update_max_holes();
        let (index, page, offset) = self.pool.allocate_reserved();
        let (record, room) = page.0.record_and_value_mut(offset);
        debug_assert!(record.generation.is_multiple_of(2), "the record was free");
        record.generation += 1;
        (index, record, room.write(value))
    }

    /// Removes an owner, unless the key is stale. If its page is freed, also returns how many valid entries
    /// become holes.
    #[inline(always)]
    pub(in crate::wheel) fn remove(&mut self, key: TimerKey) -> Option<(T, usize)> {
        let (page, offset) = self.pool.find(key.index)?;
        (page.0.record(offset).generation == key.generation.get()).then(|| self.release(key.index))
    }

    /// Removes the owner at an index that is in use.
    #[inline(always)]
    fn release(&mut self, index: u32) -> (T, usize) {
        let finish = |page: &mut OwnerPage<T, K, L>, offset| {
            let (record, value) = page.0.record_and_value_mut(offset);
            assert!(record.generation % 2 == 1, "the record is in use");
            record.generation = record.generation.wrapping_add(1);
            record.states = record.states.map(TimerState::disarmed);
            // SAFETY: The generation was odd, so the value is initialized. The generation is now even, so the
            // value is not read again.
            unsafe { value.assume_init_read() }
        };
        let mut left_behind = 0;
        let value = self.pool.free(index, finish, |page| left_behind = page.valid_entries());
        self.len -= 1;
        self.update_max_holes();
        (value, left_behind)
    }

    #[inline(always)]
    pub(in crate::wheel) fn find(&self, key: TimerKey) -> Option<(&Record<K>, &T)> {
        let (page, offset) = self.pool.find(key.index)?;
        let (record, value) = page.0.record_and_value(offset);
        // SAFETY: The generation of a key is odd, so the value is initialized.
        (record.generation == key.generation.get()).then(|| (record, unsafe { value.assume_init_ref() }))
    }

    #[inline(always)]
    pub(in crate::wheel) fn find_mut(&mut self, key: TimerKey) -> Option<(&mut Record<K>, &mut T)> {
        let (page, offset) = self.pool.find_mut(key.index)?;
        let (record, value) = page.0.record_and_value_mut(offset);
        // SAFETY: The generation of a key is odd, so the value is initialized.
        (record.generation == key.generation.get()).then(|| (record, unsafe { value.assume_init_mut() }))
    }

    #[inline(always)]
    pub(in crate::wheel) fn timer(&mut self, entry: u32) -> (&mut Tick, &mut TimerState) {
        let (index, timer) = split::<K>(entry);
        let (page, offset) = self.pool.at_mut(index);
        let (record, _) = page.0.record_and_value_mut(offset);
        (&mut record.deadlines[timer], &mut record.states[timer])
    }

    #[inline(always)]
    pub(in crate::wheel) fn state(&self, entry: u32) -> TimerState {
        let (index, timer) = split::<K>(entry);
        let (page, offset) = self.pool.at(index);
        page.0.record(offset).states[timer]
    }

    #[inline(always)]
    pub(in crate::wheel) fn owner(&mut self, entry: u32) -> (u32, usize, &mut Record<K>, &mut T) {
        let (index, timer) = split::<K>(entry);
        let (page, offset) = self.pool.at_mut(index);
        let (record, value) = page.0.record_and_value_mut(offset);
        assert!(record.generation % 2 == 1, "the record is in use");
        // SAFETY: The generation is odd, so the value is initialized.
        (index, timer, record, unsafe { value.assume_init_mut() })
    }

    /// Removes the owner of a valid entry. Returns the key, the deadline and the value, and how many valid
    /// entries become holes if the owner's page is freed.
    #[inline(always)]
    pub(in crate::wheel) fn expire(&mut self, entry: u32) -> (TimerKey, Tick, T, usize) {
        let (index, timer, record, _) = self.owner(entry);
        let (generation, deadline) = (record.generation(), record.deadlines[timer]);
        record.states[timer] = TimerState::NO_ENTRY;
        let (value, left_behind) = self.release(index);
        (TimerKey { index, generation }, deadline, value, left_behind)
    }

    #[inline(always)]
    pub(in crate::wheel) fn prefetch(&self, entry: u32) {
        let (page, offset) = self.pool.at(split::<K>(entry).0);
        let (record, value) = page.0.record_and_value(offset);
        prefetch(record);
        prefetch(value);
    }
}

impl<T, const K: usize, L: ValueLayout> OwnerPage<T, K, L> {
    fn records(&self) -> impl Iterator<Item = &Record<K>> {
        (0..OWNERS_PER_PAGE).map(|offset| self.0.record(offset))
    }

    fn valid_entries(&self) -> usize {
        self.records().flat_map(|record| record.states).filter(|state| *state != TimerState::NO_ENTRY).count()
    }
}

impl<T, const K: usize, L: ValueLayout> PoolPage for OwnerPage<T, K, L> {
    const LEN: usize = OWNERS_PER_PAGE;

    fn new_free(generation: u32) -> Box<Self> {
        let mut page = Box::<Self>::new_uninit();
        let this = page.as_mut_ptr().cast::<L::Cells<T, K>>();
        for offset in 0..OWNERS_PER_PAGE {
            let next = Tick(offset as u64 + 1);
            let record =
                Record { deadlines: [next; K], states: array::from_fn(|_| TimerState::NO_ENTRY), generation };
            // SAFETY: `this` is the page, which contains nothing else, and is valid for writes.
            unsafe { L::Cells::<T, K>::record_ptr(this, offset).write(record) };
        }
        // SAFETY: Every record has been written, and the values need not be.
        unsafe { page.assume_init() }
    }

    #[expect(clippy::cast_possible_truncation, reason = "stored as a u16")]
    fn next_free(&self, offset: usize) -> u16 {
        self.0.record(offset).deadlines[0].0 as u16
    }

    fn set_next_free(&mut self, offset: usize, next: u16) {
        self.0.record_and_value_mut(offset).0.deadlines[0] = Tick(next.into());
    }

    /// Returns whether the record has run out of generations. It is then retired, so that none of its keys
    /// can ever refer to another owner.
    #[inline]
    fn is_retired(&self, offset: usize) -> bool {
        self.0.record(offset).generation == 0
    }

    fn generation(&self) -> u32 {
        self.records().map(|record| record.generation).max().expect("a page is not empty")
    }
}

impl<T, const K: usize, L: ValueLayout> OwnerMemory<T, K, L> {
    fn drop_values(&mut self) {
        for page in self.pool.pages_mut() {
            for offset in 0..OWNERS_PER_PAGE {
                let (record, value) = page.0.record_and_value_mut(offset);
                if record.generation % 2 == 1 {
                    record.generation = 0;
                    // SAFETY: The generation was odd, so the value is initialized. The generation is now
                    // even.
                    unsafe { value.assume_init_drop() };
                }
            }
        }
    }
}

impl<T, const K: usize, L: ValueLayout> Drop for OwnerMemory<T, K, L> {
    fn drop(&mut self) {
        struct DropRemaining<'a, T, const K: usize, L: ValueLayout>(&'a mut OwnerMemory<T, K, L>);

        impl<T, const K: usize, L: ValueLayout> Drop for DropRemaining<'_, T, K, L> {
            fn drop(&mut self) {
                self.0.drop_values();
            }
        }

        if needs_drop::<T>() {
            let rest = DropRemaining(self);
            rest.0.drop_values();
            forget(rest);
        }
    }
}
