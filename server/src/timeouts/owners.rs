//! How a worker finds a timer's owner without the timer keeping it alive, and without this room knowing what it is.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use slab::Slab;

use super::TimerCell;

/// Workers and connections of different shards do not wait for each other.
const SHARDS: u32 = 16;

/// Who owns a timer. Each owner has one, and the wheel has at most one entry for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerOwner {
    /// Whichever session is in this slot. It has several deadlines; the timer is for the earliest.
    Session(u32),
    /// A channel's log: the age of its oldest message.
    Log(OwnerKey),
    /// What the backend wants done then.
    Reminder(OwnerKey),
    /// A task that waits for one of the server's other timeouts ([`super::Sleep`]).
    Sleep,
}

impl TimerOwner {
    fn key(self) -> Option<OwnerKey> {
        match self {
            Self::Log(key) | Self::Reminder(key) => Some(key),
            Self::Session(_) | Self::Sleep => None,
        }
    }
}

/// Where an [`Owners`] has an owner. After its removal the key finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnerKey {
    slot: u32,
    /// Counts the insertions. Its remainder is the shard; all of it tells apart the owners that one slot has had.
    ///
    /// After 2^32 insertions it repeats. Then a key that is so old might find another owner, which would look at its
    /// deadlines for nothing.
    generation: u32,
}

/// The owners of one kind of timer, by key.
///
/// A look-up is an index into a slab under a lock that is rarely contended, and costs about what following a `Weak` in
/// the timer would.
#[derive(Debug)]
pub(crate) struct Owners<T> {
    kind: fn(OwnerKey) -> TimerOwner,
    shards: [Mutex<Slab<Entry<T>>>; SHARDS as usize],
    insertions: AtomicU32,
}

#[derive(Debug)]
struct Entry<T> {
    owner: Weak<T>,
    generation: u32,
}

impl<T> Owners<T> {
    /// None yet. All of them are of this kind.
    #[must_use]
    pub(crate) fn new(kind: fn(OwnerKey) -> TimerOwner) -> Self {
        Self { kind, shards: Default::default(), insertions: AtomicU32::new(0) }
    }

    /// Makes the timer of an owner. Its expiries find the owner until [`Owners::remove`], and do not keep it alive.
    #[must_use]
    pub(crate) fn new_timer(&self, owner: Weak<T>) -> Arc<TimerCell> {
        Arc::new(TimerCell::new((self.kind)(self.insert(owner))))
    }

    fn insert(&self, owner: Weak<T>) -> OwnerKey {
        let generation = self.insertions.fetch_add(1, Ordering::Relaxed);
        let slot = self.shard(generation).lock().insert(Entry { owner, generation });
        OwnerKey { slot: u32::try_from(slot).expect("fewer owners than 2^32"), generation }
    }

    /// The owner, if it is still there.
    #[must_use]
    pub(crate) fn get(&self, key: OwnerKey) -> Option<Arc<T>> {
        let shard = self.shard(key.generation).lock();
        let entry = shard.get(key.slot as usize)?;
        if entry.generation == key.generation { entry.owner.upgrade() } else { None }
    }

    /// The owner of this timer is over: the timer's expiries find nothing from here on. Nothing happens the second time.
    pub(crate) fn remove(&self, timer: &TimerCell) {
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

    fn shard(&self, generation: u32) -> &Mutex<Slab<Entry<T>>> {
        &self.shards[(generation % SHARDS) as usize]
    }

    /// How many keys are in use.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_finds_its_owner_until_it_is_removed_or_dropped() {
        let owners = Owners::new(TimerOwner::Log);
        let (one, two) = (Arc::new(1), Arc::new(2));
        let keys = [owners.insert(Arc::downgrade(&one)), owners.insert(Arc::downgrade(&two))];
        assert_eq!(keys.map(|key| owners.get(key).map(|owner| *owner)), [Some(1), Some(2)]);
        owners.free(keys[0]);
        drop(two);
        assert_eq!(keys.map(|key| owners.get(key)), [None, None]);
        owners.free(keys[0]);
        owners.free(keys[1]);
        assert_eq!(owners.len(), 0);
    }

    #[test]
    fn a_stale_key_does_not_find_the_next_owner_of_its_slot() {
        let owners = Owners::new(TimerOwner::Log);
        let owner = Arc::new(());
        let stale = owners.insert(Arc::downgrade(&owner));
        owners.free(stale);
        // One to each shard: the last is in the shard of the first, and in the slot that it had.
        let keys: Vec<_> = (0..SHARDS).map(|_| owners.insert(Arc::downgrade(&owner))).collect();
        assert_eq!(keys[SHARDS as usize - 1].slot, stale.slot);
        assert!(owners.get(stale).is_none());
        owners.free(stale);
        assert!(keys.iter().all(|key| owners.get(*key).is_some()));
        assert_eq!(owners.len(), SHARDS as usize);
    }

    #[test]
    fn keys_are_used_again() {
        let owners = Owners::new(TimerOwner::Log);
        let owner = Arc::new(());
        for _ in 0..10_000 {
            owners.free(owners.insert(Arc::downgrade(&owner)));
        }
        assert!(owners.shards.iter().all(|shard| shard.lock().capacity() <= 4), "nothing grows");
        assert_eq!(Arc::weak_count(&owner), 0);
    }

    #[test]
    fn an_expiry_finds_the_owner_of_its_timer() {
        let owners = Owners::new(TimerOwner::Log);
        let owner = Arc::new(());
        let timer = owners.new_timer(Arc::downgrade(&owner));
        let TimerOwner::Log(key) = timer.owner else { panic!("{:?}", timer.owner) };
        assert!(owners.get(key).is_some());
        owners.remove(&timer);
        assert!(owners.get(key).is_none());
    }

    /// There is one a session.
    #[test]
    fn an_entry_is_two_words() {
        assert_eq!(size_of::<Option<Entry<()>>>(), 16);
    }
}
