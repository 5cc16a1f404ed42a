use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::{Arena, Slot};

/// A thing of an arena, for as long as this is there: for tasks, which outlive whoever starts them.
pub(crate) struct Held<S: Slot> {
    arena: Arc<Arena<S>>,
    index: u32,
}

/// The same, for a look: it costs no count of the arena, which all would share.
pub(crate) struct Borrowed<'a, S: Slot> {
    arena: &'a Arena<S>,
    slot: &'a S,
}

impl<S: Slot> Held<S> {
    /// Takes a hold that is counted already.
    pub(super) fn taking(arena: Arc<Arena<S>>, index: u32) -> Self {
        Self { arena, index }
    }
}

impl<'a, S: Slot> Borrowed<'a, S> {
    /// Takes a hold that is counted already.
    #[inline]
    pub(super) fn taking(arena: &'a Arena<S>, slot: &'a S) -> Self {
        Self { arena, slot }
    }
}

impl<S: Slot> Deref for Held<S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        self.arena.kept(self.index)
    }
}

impl<S: Slot> Deref for Borrowed<'_, S> {
    type Target = S;

    #[inline]
    fn deref(&self) -> &S {
        self.slot
    }
}

impl<S: Slot> Clone for Held<S> {
    fn clone(&self) -> Self {
        self.arena.hold(self)
    }
}

impl<S: Slot> Drop for Held<S> {
    fn drop(&mut self) {
        self.arena.let_go(self);
    }
}

impl<S: Slot> Drop for Borrowed<'_, S> {
    #[inline]
    fn drop(&mut self) {
        self.arena.let_go(self.slot);
    }
}

impl<S: Slot + fmt::Debug> fmt::Debug for Held<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<S: Slot + fmt::Debug> fmt::Debug for Borrowed<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
