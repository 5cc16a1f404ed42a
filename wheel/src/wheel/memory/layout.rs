//! Where the values of a page of owners are. Of owners that are lent, 32,000 pairs of the benchmark `work_units` take 5 % less time with each
//! beside its record; a million timers for once are moved 15 % faster with all of them apart, since records alone fill the cache less.

use core::fmt;
use core::mem::MaybeUninit;

use super::owners::{PAGE, Record};

/// Where a page has its owners' values.
pub(in crate::wheel) trait Layout {
    type Cells<T, const K: usize>: Cells<T, K>;
}

/// The records and values of one page.
pub(in crate::wheel) trait Cells<T, const K: usize>: fmt::Debug {
    /// What an owner takes.
    const BYTES_EACH: usize;

    fn record(&self, place: usize) -> &Record<K>;
    fn both(&self, place: usize) -> (&Record<K>, &MaybeUninit<T>);
    fn both_mut(&mut self, place: usize) -> (&mut Record<K>, &mut MaybeUninit<T>);

    /// Where the record of a page is that was not written yet.
    ///
    /// # Safety
    /// `this` is in one allocation as large as this, and `place` is below [`PAGE`].
    unsafe fn unwritten(this: *mut Self, place: usize) -> *mut Record<K>;
}

/// Beside the record: whoever has one in hand has the other soon. For owners that are lent.
#[derive(Debug)]
pub(in crate::wheel) enum Beside {}

/// Apart from all records, so that more of these are in the cache. For values that are only put in and taken out.
#[derive(Debug)]
pub(in crate::wheel) enum Apart {}

impl Layout for Beside {
    type Cells<T, const K: usize> = CellsBeside<T, K>;
}

impl Layout for Apart {
    type Cells<T, const K: usize> = CellsApart<T, K>;
}

pub(in crate::wheel) struct CellsBeside<T, const K: usize>([Cell<T, K>; PAGE]);

#[repr(C)]
struct Cell<T, const K: usize> {
    record: Record<K>,
    value: MaybeUninit<T>,
}

impl<T, const K: usize> Cells<T, K> for CellsBeside<T, K> {
    const BYTES_EACH: usize = size_of::<Cell<T, K>>();

    #[inline(always)]
    fn record(&self, place: usize) -> &Record<K> {
        &self.0[place].record
    }

    #[inline(always)]
    fn both(&self, place: usize) -> (&Record<K>, &MaybeUninit<T>) {
        let Cell { record, value } = &self.0[place];
        (record, value)
    }

    #[inline(always)]
    fn both_mut(&mut self, place: usize) -> (&mut Record<K>, &mut MaybeUninit<T>) {
        let Cell { record, value } = &mut self.0[place];
        (record, value)
    }

    unsafe fn unwritten(this: *mut Self, place: usize) -> *mut Record<K> {
        // SAFETY: As the caller says, it lies within the allocation.
        unsafe { &raw mut (*this).0[place].record }
    }
}

pub(in crate::wheel) struct CellsApart<T, const K: usize> {
    records: [Record<K>; PAGE],
    values: [MaybeUninit<T>; PAGE],
}

impl<T, const K: usize> Cells<T, K> for CellsApart<T, K> {
    const BYTES_EACH: usize = size_of::<Record<K>>() + size_of::<T>();

    #[inline(always)]
    fn record(&self, place: usize) -> &Record<K> {
        &self.records[place]
    }

    #[inline(always)]
    fn both(&self, place: usize) -> (&Record<K>, &MaybeUninit<T>) {
        (&self.records[place], &self.values[place])
    }

    #[inline(always)]
    fn both_mut(&mut self, place: usize) -> (&mut Record<K>, &mut MaybeUninit<T>) {
        (&mut self.records[place], &mut self.values[place])
    }

    unsafe fn unwritten(this: *mut Self, place: usize) -> *mut Record<K> {
        // SAFETY: As the caller says, it lies within the allocation.
        unsafe { &raw mut (*this).records[place] }
    }
}

impl<T, const K: usize> fmt::Debug for CellsBeside<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CellsBeside").finish_non_exhaustive()
    }
}

impl<T, const K: usize> fmt::Debug for CellsApart<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CellsApart").finish_non_exhaustive()
    }
}
