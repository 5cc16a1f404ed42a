//! Occupancy of an arena's slot.
//!
//! One word holds the number of references to the slot's item and the item's generation, that is, how many
//! items the slot has held. A look-up increments the count with a single compare-and-swap, and only if the
//! generation matches and the item is still referenced. Therefore, it finds either the requested item, which
//! then stays in its slot, or nothing, regardless of what other threads insert and remove at the same time.
//!
//! This file is compiled a second time against loom: see `server/base/tests/loom.rs`.

use super::sync::{AtomicU64, Ordering, fence};

/// Generation in the upper half, reference count in the lower.
#[derive(Debug)]
pub struct SlotState(AtomicU64);

/// Mask of the reference count.
const COUNT_MASK: u64 = u32::MAX as u64;

/// Amount by which the word grows from one generation to the next.
const GENERATION_STEP: u64 = 1 << 32;

impl SlotState {
    /// Creates the state of a slot that has never been used.
    pub fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Starts a new generation with one reference. The caller must have exclusive access to the slot, and
    /// have initialized it.
    ///
    /// The generation wraps after 2^32 items. A key that old would find, and act on, a different item.
    pub fn occupy(&self) {
        let last = self.0.load(Ordering::Relaxed) & !COUNT_MASK;
        self.0.store(last.wrapping_add(GENERATION_STEP) | 1, Ordering::Release);
    }

    /// Returns the current generation. The caller must hold a reference.
    #[inline]
    pub fn generation(&self) -> u32 {
        generation(self.0.load(Ordering::Relaxed))
    }

    /// Whether the slot's item is of this generation and still referenced.
    #[inline]
    pub(crate) fn is_occupied_by(&self, wanted: u32) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        generation(word) == wanted && word & COUNT_MASK != 0
    }

    /// Adds a reference if the slot's item is of this generation and still referenced.
    #[inline]
    pub fn acquire_if(&self, wanted: u32) -> bool {
        self.acquire_where(|word| generation(word) == wanted)
    }

    /// Adds a reference to the slot's current item, regardless of its generation, if it is still referenced.
    #[inline]
    pub fn acquire_any(&self) -> bool {
        self.acquire_where(|_| true)
    }

    #[inline]
    fn acquire_where(&self, matches: impl Fn(u64) -> bool) -> bool {
        let incremented = |word| (word & COUNT_MASK != 0 && matches(word)).then_some(word + 1);
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, incremented).is_ok()
    }

    /// Adds a reference. The caller must already hold one.
    #[inline]
    pub fn acquire(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Drops a reference. Returns whether it was the last one, in which case the caller has exclusive access
    /// to the slot.
    #[inline]
    pub fn release(&self) -> bool {
        let is_last = self.0.fetch_sub(1, Ordering::Release) & COUNT_MASK == 1;
        if is_last {
            // All uses of the other references happen before this.
            fence(Ordering::Acquire);
        }
        is_last
    }
}

#[inline]
fn generation(word: u64) -> u32 {
    u32::try_from(word >> 32).expect("the upper 32 bits")
}
