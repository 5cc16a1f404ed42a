//! Layouts of the records and values in a page of owners.
//!
//! With each value next to its record, 32,000 pairs of the benchmark `work_units` take 5 % less time, because
//! the caller uses an owner's record and value together. With all values separate from the records, moving a
//! million one-shot timers is 15 % faster, because more records fit into the cache.

use core::fmt;
use core::mem::MaybeUninit;

use super::owner_memory::{OWNERS_PER_PAGE, Record};

pub(in crate::wheel) trait ValueLayout {
    type Cells<T, const K: usize>: Cells<T, K>;
}

pub(in crate::wheel) trait Cells<T, const K: usize>: fmt::Debug {
    /// Size of an owner in bytes.
    const BYTES_EACH: usize;

    fn record(&self, offset: usize) -> &Record<K>;
    fn record_and_value(&self, offset: usize) -> (&Record<K>, &MaybeUninit<T>);
    fn record_and_value_mut(&mut self, offset: usize) -> (&mut Record<K>, &mut MaybeUninit<T>);

    /// Returns a pointer to a record of a page that may not be initialized yet.
    ///
    /// # Safety
    ///
    /// `this` must point into a single allocation that is at least as large as a page, and `offset` must be
    /// below [`OWNERS_PER_PAGE`].
    unsafe fn record_ptr(this: *mut Self, offset: usize) -> *mut Record<K>;
}

/// Each value next to its record, for owners that are passed to the caller when a timer expires: the record
/// and the value are used together.
#[derive(Debug)]
pub(in crate::wheel) enum Interleaved {}

/// All values separate from the records, for values that are only inserted and removed: more records fit into
/// the cache.
#[derive(Debug)]
pub(in crate::wheel) enum Separate {}

impl ValueLayout for Interleaved {
    type Cells<T, const K: usize> = InterleavedCells<T, K>;
}

impl ValueLayout for Separate {
    type Cells<T, const K: usize> = SeparateCells<T, K>;
}

pub(in crate::wheel) struct InterleavedCells<T, const K: usize>([InterleavedCell<T, K>; OWNERS_PER_PAGE]);

#[repr(C)]
struct InterleavedCell<T, const K: usize> {
    record: Record<K>,
    value: MaybeUninit<T>,
}

impl<T, const K: usize> Cells<T, K> for InterleavedCells<T, K> {
    const BYTES_EACH: usize = size_of::<InterleavedCell<T, K>>();

    #[inline(always)]
    fn record(&self, offset: usize) -> &Record<K> {
        &self.0[offset].record
    }

    #[inline(always)]
    fn record_and_value(&self, offset: usize) -> (&Record<K>, &MaybeUninit<T>) {
        let InterleavedCell { record, value } = &self.0[offset];
        (record, value)
    }

    #[inline(always)]
    fn record_and_value_mut(&mut self, offset: usize) -> (&mut Record<K>, &mut MaybeUninit<T>) {
        let InterleavedCell { record, value } = &mut self.0[offset];
        (record, value)
    }

    unsafe fn record_ptr(this: *mut Self, offset: usize) -> *mut Record<K> {
        // SAFETY: The record lies within the allocation, as the caller guarantees.
        unsafe { &raw mut (*this).0[offset].record }
    }
}

pub(in crate::wheel) struct SeparateCells<T, const K: usize> {
    records: [Record<K>; OWNERS_PER_PAGE],
    values: [MaybeUninit<T>; OWNERS_PER_PAGE],
}

impl<T, const K: usize> Cells<T, K> for SeparateCells<T, K> {
    const BYTES_EACH: usize = size_of::<Record<K>>() + size_of::<T>();

    #[inline(always)]
    fn record(&self, offset: usize) -> &Record<K> {
        &self.records[offset]
    }

    #[inline(always)]
    fn record_and_value(&self, offset: usize) -> (&Record<K>, &MaybeUninit<T>) {
        (&self.records[offset], &self.values[offset])
    }

    #[inline(always)]
    fn record_and_value_mut(&mut self, offset: usize) -> (&mut Record<K>, &mut MaybeUninit<T>) {
        (&mut self.records[offset], &mut self.values[offset])
    }

    unsafe fn record_ptr(this: *mut Self, offset: usize) -> *mut Record<K> {
        // SAFETY: The record lies within the allocation, as the caller guarantees.
        unsafe { &raw mut (*this).records[offset] }
    }
}

impl<T, const K: usize> fmt::Debug for InterleavedCells<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InterleavedCells").finish_non_exhaustive()
    }
}

impl<T, const K: usize> fmt::Debug for SeparateCells<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SeparateCells").finish_non_exhaustive()
    }
}
