//! Storage for tens of thousands of short-lived items of one type, placed next to each other in memory.
//!
//! Each item occupies a slot of an [`Arena`]. Slots are allocated 512 at a time, never move, and are reused.
//! Therefore, long-lived items are not scattered among short-lived ones, and new sessions reuse the memory of
//! closed ones. A [`SlotKey`] of 8 bytes finds an item again without keeping it alive; it finds nothing once
//! the item has been removed. While an item is in use, a guard ([`OwnedSlotGuard`], [`SlotGuard`]) prevents
//! its slot from being reused.
//!
//! A look-up takes no lock: it loads the address of the chunk and adds a reference with one compare-and-swap
//! on the [`SlotState`].

mod slot_state;
mod sync;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::locks::Mutex;
use encke_timeouts::Chunks;

pub use slot_state::SlotState;

/// A slot, which holds successive items. Its fields must be atomics or locks, because many threads may access
/// it at the same time.
pub trait Slot: Send + Sync {
    /// Creates an empty slot that stores this index, its position in the arena.
    fn vacant(index: u32) -> Self;

    fn index(&self) -> u32;

    fn slot_state(&self) -> &SlotState;

    /// Drops everything that the item owned. Called after the last reference has been dropped, when no new
    /// one can be added.
    fn clear(&self);
}

/// Key of an item: its slot, and its generation in that slot. A key does not keep the item alive. Keys are
/// ordered by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotKey {
    index: u32,
    generation: u32,
}

const _: () = assert!(size_of::<SlotKey>() == 8);

impl SlotKey {
    /// Returns the key of the item in this slot. The caller must hold a reference to the item.
    pub fn of(slot: &impl Slot) -> Self {
        Self { index: slot.index(), generation: slot.slot_state().generation() }
    }

    /// Returns a key that orders before all items in this slot and in later slots.
    pub fn first_in(index: u32) -> Self {
        Self { index, generation: 0 }
    }

    pub fn index(self) -> u32 {
        self.index
    }

    /// Packs the key into a number that the kernel can store.
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// Reverse of [`Self::to_u64`].
    #[expect(clippy::cast_possible_truncation, reason = "splits the number into its halves")]
    pub fn from_u64(number: u64) -> Self {
        Self { index: number as u32, generation: (number >> 32) as u32 }
    }
}

pub struct Arena<S> {
    chunks: Chunks<S>,
    /// Locked briefly when an item is inserted or removed.
    vacant: Mutex<VacantSlots>,
    /// Number of occupied slots.
    occupied: AtomicU32,
}

/// Slots that are free for new items.
#[derive(Debug, Default)]
struct VacantSlots {
    /// Slots that were used before. The last one is reused first.
    released: Vec<u32>,
    /// Index of the first slot that has never been used.
    first_unused: u32,
}

impl<S: Slot> Arena<S> {
    /// Creates an empty arena for at most `limit` items, rounded up to whole chunks.
    pub fn new(limit: usize) -> Self {
        Self { chunks: Chunks::new(limit), vacant: Mutex::default(), occupied: AtomicU32::new(0) }
    }

    /// Puts an item into a slot. `fill` has exclusive access to the slot; afterwards the item can be found.
    /// Returns `None` if all slots are occupied.
    pub fn insert(self: &Arc<Self>, fill: impl FnOnce(&S)) -> Option<OwnedSlotGuard<S>> {
        let index = self.vacant.lock().take(self.chunks.capacity())?;
        let slot = self.chunks.get_or_init(index, S::vacant);
        fill(slot);
        slot.slot_state().occupy();
        self.occupied.fetch_add(1, Ordering::Relaxed);
        Some(OwnedSlotGuard::from_acquired(Arc::clone(self), index))
    }

    /// Returns the item if it still exists.
    // Inline, because every ping and delivery looks up a session.
    #[inline]
    pub fn get(&self, key: SlotKey) -> Option<SlotGuard<'_, S>> {
        let slot = self.chunks.get(key.index)?;
        slot.slot_state().acquire_if(key.generation).then(|| SlotGuard::from_acquired(self, slot))
    }

    /// Whether the item still exists.
    pub fn contains(&self, key: SlotKey) -> bool {
        self.chunks.get(key.index).is_some_and(|slot| slot.slot_state().is_occupied_by(key.generation))
    }

    /// Returns the item that currently occupies this slot.
    #[inline]
    pub fn get_at(&self, index: u32) -> Option<SlotGuard<'_, S>> {
        let slot = self.chunks.get(index)?;
        slot.slot_state().acquire_any().then(|| SlotGuard::from_acquired(self, slot))
    }

    /// Iterates over the items in this slot and in later slots. Each slot is read when the iterator reaches
    /// it.
    pub fn iter_from(&self, index: u32) -> impl Iterator<Item = SlotGuard<'_, S>> {
        let end = self.vacant.lock().first_unused;
        (index..end).filter_map(|index| self.get_at(index))
    }

    /// Creates an owned guard for an item that is already guarded.
    pub fn guard(self: &Arc<Self>, slot: &S) -> OwnedSlotGuard<S> {
        self.retain(slot);
        OwnedSlotGuard::from_acquired(Arc::clone(self), slot.index())
    }

    /// Adds a reference to an item that is already guarded. The caller must balance it with
    /// [`Self::release`].
    pub fn retain(&self, slot: &S) {
        slot.slot_state().acquire();
    }

    /// Returns the item in a slot to which the caller has added a reference with [`Self::retain`].
    pub fn retained(&self, index: u32) -> &S {
        self.chunks.get(index).expect("a referenced slot is in an allocated chunk")
    }

    /// Drops a reference. The last one frees the slot.
    #[inline]
    pub fn release(&self, slot: &S) {
        if slot.slot_state().release() {
            self.vacate(slot);
        }
    }

    #[cold]
    fn vacate(&self, slot: &S) {
        slot.clear();
        self.occupied.fetch_sub(1, Ordering::Relaxed);
        self.vacant.lock().released.push(slot.index());
    }

    /// Number of items.
    #[cfg(any(test, feature = "simulation"))]
    pub fn len(&self) -> usize {
        self.occupied.load(Ordering::Relaxed) as usize
    }
}

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
    fn from_acquired(arena: Arc<Arena<S>>, index: u32) -> Self {
        Self { arena, index }
    }
}

impl<'a, S: Slot> SlotGuard<'a, S> {
    /// Takes over a reference that is already counted.
    #[inline]
    fn from_acquired(arena: &'a Arena<S>, slot: &'a S) -> Self {
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

impl VacantSlots {
    fn take(&mut self, limit: u32) -> Option<u32> {
        if let Some(index) = self.released.pop() {
            return Some(index);
        }
        let index = Some(self.first_unused).filter(|index| *index < limit)?;
        self.first_unused += 1;
        Some(index)
    }
}

impl<S> fmt::Debug for Arena<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("taken", &self.occupied)
            .field("vacant", &self.vacant)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
