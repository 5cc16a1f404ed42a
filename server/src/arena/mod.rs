//! Things of one kind that come and go by the ten thousand, side by side in memory.
//!
//! Each has a slot of an [`Arena`]. Slots are made 512 at a time, never move, and are used again: what stays for long is not scattered among
//! what goes soon, and a crowd that leaves makes room for the next. Whoever wants to find a thing again keeps a [`Ref`] of 8 bytes, which does
//! not keep it alive; it finds nothing once the thing is gone. While a thing is in use it is held ([`Held`], [`Borrowed`]), and its slot is not
//! given to another.
//!
//! A look-up locks nothing: it reads where the chunk is, and counts a hold by one compare-and-swap of the slot's [`Life`].

mod chunks;
mod held;
mod life;

/// What `life.rs` is made of. The test `loom` puts loom's in its place.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
}

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

pub(crate) use chunks::Chunks;
pub(crate) use held::{Borrowed, Held};
pub(crate) use life::Life;

/// A place for one thing after the other. What it has is behind atomics and locks: many may look at it at a time.
pub(crate) trait Slot: Send + Sync {
    /// With nothing in it, at this index of the arena, which it keeps.
    fn vacant(index: u32) -> Self;

    fn index(&self) -> u32;

    fn life(&self) -> &Life;

    /// The thing is gone: gives up all that it owned. Nobody holds it, and nobody can.
    fn vacate(&self);
}

/// Which slot, and which of the things that it has had. It keeps nothing alive.
/// In the order of slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ref {
    index: u32,
    generation: u32,
}

const _: () = assert!(size_of::<Ref>() == 8);

impl Ref {
    /// The thing in this slot, which the caller holds.
    pub(crate) fn of(slot: &impl Slot) -> Self {
        Self { index: slot.index(), generation: slot.life().generation() }
    }

    /// Before all things of this slot and of those after it.
    pub(crate) fn first_of(index: u32) -> Self {
        Self { index, generation: 0 }
    }

    /// Which slot.
    pub(crate) fn index(self) -> u32 {
        self.index
    }

    /// As one number, for the kernel to keep.
    pub(crate) fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The reverse of [`Self::number`].
    #[expect(clippy::cast_possible_truncation, reason = "it is taken apart")]
    pub(crate) fn of_number(number: u64) -> Self {
        Self { index: number as u32, generation: (number >> 32) as u32 }
    }
}

/// All slots there are.
pub(crate) struct Arena<S> {
    chunks: Chunks<S>,
    /// Locked for a moment when a thing comes or goes. Nothing is locked meanwhile.
    vacant: Mutex<Vacant>,
    /// Slots that have something in them.
    taken: AtomicU32,
}

/// The slots that a thing can have.
#[derive(Debug, Default)]
struct Vacant {
    /// Of those that have been used. The last is the next to be used again.
    left: Vec<u32>,
    /// From here on, none has been used yet.
    unused: u32,
}

impl<S: Slot> Arena<S> {
    /// None yet, and at most `limit`, or a few more: whole chunks are made.
    pub(crate) fn new(limit: usize) -> Self {
        Self { chunks: Chunks::new(limit), vacant: Mutex::default(), taken: AtomicU32::new(0) }
    }

    /// Puts a thing into a slot. `fill` has the slot to itself: from then on the thing can be found. Nothing happens if all slots are taken.
    pub(crate) fn enter(self: &Arc<Self>, fill: impl FnOnce(&S)) -> Option<Held<S>> {
        let index = self.vacant.lock().take(self.chunks.slots())?;
        let slot = self.chunks.get_or_make(index, S::vacant);
        fill(slot);
        slot.life().begin();
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(Held::taking(Arc::clone(self), index))
    }

    /// The thing, if it is still there.
    // A ping and a delivery look here.
    #[inline]
    pub(crate) fn get(&self, reference: Ref) -> Option<Borrowed<'_, S>> {
        let slot = self.chunks.get(reference.index)?;
        slot.life().hold_if(reference.generation).then(|| Borrowed::taking(self, slot))
    }

    /// Whether the thing is still there.
    pub(crate) fn has(&self, reference: Ref) -> bool {
        self.chunks.get(reference.index).is_some_and(|slot| slot.life().is(reference.generation))
    }

    /// What is in this slot by now.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> Option<Borrowed<'_, S>> {
        let slot = self.chunks.get(index)?;
        slot.life().hold_any().then(|| Borrowed::taking(self, slot))
    }

    /// What is in the slots from this index on, as it is when its turn comes.
    pub(crate) fn from(&self, index: u32) -> impl Iterator<Item = Borrowed<'_, S>> {
        let end = self.vacant.lock().unused;
        (index..end).filter_map(|index| self.at(index))
    }

    /// Holds a thing that is held already, for longer than who holds it.
    pub(crate) fn hold(self: &Arc<Self>, slot: &S) -> Held<S> {
        self.keep(slot);
        Held::taking(Arc::clone(self), slot.index())
    }

    /// Counts a hold of a thing that is held already. It stays until [`Self::let_go`], for which the caller answers.
    pub(crate) fn keep(&self, slot: &S) {
        slot.life().hold();
    }

    /// What is in a slot, of which the caller has [kept](Self::keep) a hold.
    pub(crate) fn kept(&self, index: u32) -> &S {
        self.chunks.get(index).expect("what is held is in a chunk that is made")
    }

    /// Ends a hold. The last to end gives the slot up.
    #[inline]
    pub(crate) fn let_go(&self, slot: &S) {
        if slot.life().release() {
            self.vacate(slot);
        }
    }

    #[cold]
    fn vacate(&self, slot: &S) {
        slot.vacate();
        self.taken.fetch_sub(1, Ordering::Relaxed);
        self.vacant.lock().left.push(slot.index());
    }

    /// How many things there are.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn len(&self) -> usize {
        self.taken.load(Ordering::Relaxed) as usize
    }
}

impl Vacant {
    fn take(&mut self, limit: u32) -> Option<u32> {
        if let Some(index) = self.left.pop() {
            return Some(index);
        }
        let index = Some(self.unused).filter(|index| *index < limit)?;
        self.unused += 1;
        Some(index)
    }
}

impl<S> fmt::Debug for Arena<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("taken", &self.taken)
            .field("vacant", &self.vacant)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
