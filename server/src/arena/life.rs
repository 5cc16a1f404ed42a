//! How long a slot is one thing's.
//!
//! One word has how many hold the thing, and which one it is of those that the slot has had. A look-up counts a hold only if the thing is
//! the one that it looks for and somebody holds it still, in one compare-and-swap: so it finds either that thing, which stays while it is held, or
//! nothing, whoever leaves and comes meanwhile.
//!
//! This file is compiled a second time against loom: see `server/tests/loom.rs`.

use super::sync::{AtomicU64, Ordering, fence};

/// The generation in the upper half, holds in the lower.
#[derive(Debug)]
pub(crate) struct Life(AtomicU64);

/// Of the lower half.
const HOLDS: u64 = u32::MAX as u64;

/// A generation more.
const GENERATION: u64 = 1 << 32;

impl Life {
    /// Of a slot that has had nothing yet.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// For the caller that has the slot, which nobody holds, to itself, and has filled it: a new generation begins, with one hold.
    ///
    /// After 2^32 it repeats. A reference that is so old would find another thing, and act on it as on its own.
    pub(crate) fn begin(&self) {
        let last = self.0.load(Ordering::Relaxed) & !HOLDS;
        self.0.store(last.wrapping_add(GENERATION) | 1, Ordering::Release);
    }

    /// For those who hold it: which one it is.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        generation(self.0.load(Ordering::Relaxed))
    }

    /// Whether somebody holds this one still.
    pub(crate) fn is(&self, wanted: u32) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        generation(word) == wanted && word & HOLDS != 0
    }

    /// Holds it, if it is this one, and somebody holds it still.
    #[inline]
    pub(crate) fn hold_if(&self, wanted: u32) -> bool {
        self.hold_where(|word| generation(word) == wanted)
    }

    /// Holds it, whichever it is, if somebody holds it still.
    #[inline]
    pub(crate) fn hold_any(&self) -> bool {
        self.hold_where(|_| true)
    }

    #[inline]
    fn hold_where(&self, is_right: impl Fn(u64) -> bool) -> bool {
        let one_more = |word| (word & HOLDS != 0 && is_right(word)).then_some(word + 1);
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, one_more).is_ok()
    }

    /// For those who hold it: one hold more.
    #[inline]
    pub(crate) fn hold(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One hold less. Returns whether that was the last: then the caller has the slot to itself.
    #[inline]
    pub(crate) fn release(&self) -> bool {
        let is_last = self.0.fetch_sub(1, Ordering::Release) & HOLDS == 1;
        if is_last {
            // What the others did with it has been done.
            fence(Ordering::Acquire);
        }
        is_last
    }
}

fn generation(word: u64) -> u32 {
    u32::try_from(word >> 32).expect("32 bits remain")
}
