use std::ops::Deref;
use std::sync::Arc;

use super::{Arena, Slot};

/// Owned guard that keeps an arena's item in its slot. Used by tasks, which outlive the code that spawns
/// them.
#[derive(Debug)]
pub struct OwnedSlotGuard<S: Slot> {
    arena: Arc<Arena<S>>,
    index: u32,
}

/// Borrowed guard that keeps an arena's item in its slot. Unlike [`OwnedSlotGuard`], it does not touch the
/// arena's reference count, on which all threads would contend.
#[derive(Debug)]
pub struct SlotGuard<'a, S: Slot> {
    arena: &'a Arena<S>,
    slot: &'a S,
}

impl<S: Slot> OwnedSlotGuard<S> {
    /// Takes over a reference that is already counted.
    pub(super) fn from_acquired(arena: Arc<Arena<S>>, index: u32) -> Self {
        Self { arena, index }
    }
}

impl<'a, S: Slot> SlotGuard<'a, S> {
    /// Takes over a reference that is already counted.
    #[inline]
    pub(super) fn from_acquired(arena: &'a Arena<S>, slot: &'a S) -> Self {
        Self { arena, slot }
    }
}

impl<S: Slot> Deref for OwnedSlotGuard<S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        self.arena.retained(self.index)
    }
}

impl<S: Slot> Deref for SlotGuard<'_, S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        self.slot
    }
}

impl<S: Slot> Clone for OwnedSlotGuard<S> {
    fn clone(&self) -> Self {
        self.arena.guard(self)
    }
}

impl<S: Slot> Drop for OwnedSlotGuard<S> {
    fn drop(&mut self) {
        self.arena.release(self);
    }
}

impl<S: Slot> Drop for SlotGuard<'_, S> {
    #[inline]
    fn drop(&mut self) {
        self.arena.release(self.slot);
    }
}
