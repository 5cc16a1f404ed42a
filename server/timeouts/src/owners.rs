//! Tables in which a worker finds a timer's owner. The timer does not keep the owner alive, and this module
//! does not know the owner's type.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use slab::Slab;

use crate::timer_cell::TimerCell;
use crate::timer_owner::{OwnerKey, TimerOwner};

/// Number of shards. Workers and connections that use different shards do not contend for a lock.
const SHARDS: u32 = 16;

/// Table of the owners of one kind of timer.
///
/// A look-up indexes a slab while holding a rarely contended lock. It costs about as much as upgrading a
/// `Weak` stored in the timer would.
#[derive(Debug)]
pub struct TimerOwners<T> {
    kind: fn(OwnerKey) -> TimerOwner,
    shards: [Mutex<Slab<OwnerEntry<T>>>; SHARDS as usize],
    insertions: AtomicU32,
}

#[derive(Debug)]
struct OwnerEntry<T> {
    owner: Weak<T>,
    generation: u32,
}

impl<T> TimerOwners<T> {
    /// Creates an empty table for owners of this kind.
    #[must_use]
    pub fn new(kind: fn(OwnerKey) -> TimerOwner) -> Self {
        Self { kind, shards: Default::default(), insertions: AtomicU32::new(0) }
    }

    /// Creates the timer of an owner. Expiries find the owner until [`TimerOwners::remove`], but do not keep
    /// it alive.
    #[must_use]
    pub fn new_timer(&self, owner: Weak<T>) -> Arc<TimerCell> {
        Arc::new(TimerCell::new((self.kind)(self.insert(owner))))
    }

    fn insert(&self, owner: Weak<T>) -> OwnerKey {
        let generation = self.insertions.fetch_add(1, Ordering::Relaxed);
        let slot = self.shard(generation).lock().insert(OwnerEntry { owner, generation });
        OwnerKey { slot: u32::try_from(slot).expect("fewer owners than 2^32"), generation }
    }

    /// Returns the owner if it still exists.
    #[must_use]
    pub fn get(&self, key: OwnerKey) -> Option<Arc<T>> {
        let shard = self.shard(key.generation).lock();
        let entry = shard.get(key.slot as usize)?;
        if entry.generation == key.generation { entry.owner.upgrade() } else { None }
    }

    /// Removes the owner of this timer, so that later expiries find nothing. Has no effect if the owner was
    /// already removed.
    pub fn remove(&self, timer: &TimerCell) {
        if let Some(key) = timer.owner.key() {
            self.free(key);
        }
    }

    fn free(&self, key: OwnerKey) {
        let mut shard = self.shard(key.generation).lock();
        if shard.get(key.slot as usize).is_some_and(|entry| entry.generation == key.generation) {
            shard.remove(key.slot as usize);
        }
    }

    fn shard(&self, generation: u32) -> &Mutex<Slab<OwnerEntry<T>>> {
        &self.shards[(generation % SHARDS) as usize]
    }

    /// Number of keys in use.
    #[cfg(feature = "simulation")]
    pub fn count(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_finds_its_owner_until_it_is_removed_or_dropped() {
        let owners = TimerOwners::new(TimerOwner::Log);
        let (one, two) = (Arc::new(1), Arc::new(2));
        let keys = [owners.insert(Arc::downgrade(&one)), owners.insert(Arc::downgrade(&two))];
        assert_eq!(keys.map(|key| owners.get(key).map(|owner| *owner)), [Some(1), Some(2)]);
        owners.free(keys[0]);
        drop(two);
        assert_eq!(keys.map(|key| owners.get(key)), [None, None]);
        owners.free(keys[0]);
        owners.free(keys[1]);
        assert_eq!(owners.count(), 0);
    }

    #[test]
    fn a_stale_key_does_not_find_the_next_owner_of_its_slot() {
        let owners = TimerOwners::new(TimerOwner::Log);
        let owner = Arc::new(());
        let stale = owners.insert(Arc::downgrade(&owner));
        owners.free(stale);
        // Insert one key in each shard: the last one reuses the shard and the slot of the stale key.
        let keys: Vec<_> = (0..SHARDS).map(|_| owners.insert(Arc::downgrade(&owner))).collect();
        assert_eq!(keys[SHARDS as usize - 1].slot, stale.slot);
        assert!(owners.get(stale).is_none());
        owners.free(stale);
        assert!(keys.iter().all(|key| owners.get(*key).is_some()));
        assert_eq!(owners.count(), SHARDS as usize);
    }

    #[test]
    fn keys_are_reused() {
        let owners = TimerOwners::new(TimerOwner::Log);
        let owner = Arc::new(());
        for _ in 0..10_000 {
            owners.free(owners.insert(Arc::downgrade(&owner)));
        }
        assert!(owners.shards.iter().all(|shard| shard.lock().capacity() <= 4), "the table does not grow");
        assert_eq!(Arc::weak_count(&owner), 0);
    }

    #[test]
    fn an_expiry_finds_the_owner_of_its_timer() {
        let owners = TimerOwners::new(TimerOwner::Log);
        let owner = Arc::new(());
        let timer = owners.new_timer(Arc::downgrade(&owner));
        let TimerOwner::Log(key) = timer.owner else { panic!("{:?}", timer.owner) };
        assert!(owners.get(key).is_some());
        owners.remove(&timer);
        assert!(owners.get(key).is_none());
    }

    /// Every log and reminder has an entry.
    #[test]
    fn an_entry_is_two_words() {
        assert_eq!(size_of::<Option<OwnerEntry<()>>>(), 16);
    }
}
