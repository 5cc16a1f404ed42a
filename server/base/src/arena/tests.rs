//! Tests the arena. `look_up_finds_the_requested_item_or_nothing` in `server/base/tests/loom.rs` covers every
//! interleaving of look-ups.
//!
//! `ENCKE_SEED=<n>` runs the random test with one seed. Without it, the test runs with a fixed range of seeds
//! and a fresh one.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use encke_seeds::with_seeds;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

/// A slot whose item has a number and owns a value.
#[derive(Debug)]
struct NumberedSlot {
    index: u32,
    life: SlotState,
    number: AtomicU64,
    owned: Mutex<Option<Arc<()>>>,
}

impl Slot for NumberedSlot {
    fn vacant(index: u32) -> Self {
        Self { index, life: SlotState::new(), number: AtomicU64::new(0), owned: Mutex::new(None) }
    }

    fn index(&self) -> u32 {
        self.index
    }

    fn slot_state(&self) -> &SlotState {
        &self.life
    }

    fn clear(&self) {
        *self.owned.lock() = None;
    }
}

impl NumberedSlot {
    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}

fn arena(limit: usize) -> Arc<Arena<NumberedSlot>> {
    Arc::new(Arena::new(limit))
}

fn insert(
    arena: &Arc<Arena<NumberedSlot>>,
    number: u64,
) -> (OwnedSlotGuard<NumberedSlot>, SlotKey, Weak<()>) {
    let owned = Arc::new(());
    let weak = Arc::downgrade(&owned);
    let guard = arena.insert(|slot| {
        slot.number.store(number, Ordering::Relaxed);
        *slot.owned.lock() = Some(owned);
    });
    let guard = guard.expect("there is room");
    let key = SlotKey::of(&*guard);
    (guard, key, weak)
}

#[test]
fn an_item_is_found_until_the_last_guard_is_dropped() {
    let arena = arena(10);
    let (guard, key, owned) = insert(&arena, 7);
    let found = arena.get(key).expect("it exists");
    drop(guard);
    assert!(arena.contains(key) && arena.get(key).is_some(), "it is still referenced");
    let again = arena.guard(&found);
    drop(found);
    assert_eq!((again.number(), again.clone().number(), arena.len()), (7, 7, 1));
    arena.retain(&again);
    drop(again);
    assert_eq!(arena.retained(key.index()).number(), 7);
    arena.release(arena.retained(key.index()));
    assert!(!arena.contains(key) && arena.get(key).is_none() && arena.get_at(key.index()).is_none());
    assert!(owned.upgrade().is_none(), "it has dropped what it owned");
    assert_eq!(arena.len(), 0);
}

#[test]
fn a_stale_key_does_not_find_the_next_item_in_its_slot() {
    let arena = arena(10);
    let (first, stale, _) = insert(&arena, 1);
    drop(first);
    let (_second, key, _) = insert(&arena, 2);
    assert_eq!(stale.index(), key.index());
    assert!(!arena.contains(stale) && arena.get(stale).is_none());
    assert_eq!(arena.get_at(stale.index()).map(|found| found.number()), Some(2), "the current item");
    assert_eq!(SlotKey::from_u64(key.to_u64()), key);
    assert!(arena.get(SlotKey::from_u64(u64::MAX)).is_none(), "not a key of this arena");
}

#[test]
fn slots_are_reused_and_limited() {
    let arena = arena(600);
    for number in 0..10_000 {
        drop(insert(&arena, number));
    }
    assert_eq!(arena.vacant.lock().first_unused, 1, "the slot is reused");
    let (mut all, mut refused) = (Vec::new(), 0);
    for _ in 0..2_000 {
        match arena.insert(|_| {}) {
            Some(guard) => all.push(guard),
            None => refused += 1,
        }
    }
    assert_eq!((all.len(), refused), (1024, 976), "whole chunks are allocated");
    let first = SlotKey::of(&*all[0]);
    drop(all);
    assert_eq!(arena.len(), 0);
    assert!(arena.get(first).is_none());
    assert!(arena.insert(|_| {}).is_some(), "slots are free again");
}

#[test]
fn items_are_iterated_in_slot_order() {
    let arena = arena(2_000);
    let mut all: Vec<_> = (0..1_500).map(|number| insert(&arena, number)).collect();
    let mut number = 0;
    all.retain(|_| {
        number += 1;
        number % 3 == 0
    });
    let found: Vec<_> = arena.iter_from(600).map(|found| found.number()).collect();
    let expected: Vec<_> = (600..1_500).filter(|number| number % 3 == 2).collect();
    assert_eq!(found, expected);
}

/// Compares the arena with a list of the items that it should contain.
#[test]
fn random_inserts_and_removals() {
    with_seeds(0..20, |seed| {
        let mut rng = StdRng::seed_from_u64(seed);
        let arena = arena(1_024);
        let mut present: Vec<(OwnedSlotGuard<NumberedSlot>, SlotKey, u64, Weak<()>)> = Vec::new();
        let mut removed = Vec::new();
        for number in 0..5_000 {
            let at = rng.random_range(0..=present.len());
            if at < present.len() && rng.random_bool(0.45) {
                let (guard, key, number, owned) = present.swap_remove(at);
                assert_eq!(guard.number(), number);
                drop(guard);
                removed.push((key, owned));
            } else if at < present.len() && rng.random_bool(0.2) {
                let guard = present[at].0.clone();
                present[at].0 = guard;
            } else if let (Some(guard), true) = (arena.insert(|_| {}), present.len() < 1_000) {
                let owned = Arc::new(());
                guard.number.store(number, Ordering::Relaxed);
                *guard.owned.lock() = Some(Arc::clone(&owned));
                let key = SlotKey::of(&*guard);
                present.push((guard, key, number, Arc::downgrade(&owned)));
            }
            assert_eq!(arena.len(), present.len());
            if let Some((_, key, number, owned)) = present.last() {
                assert_eq!(arena.get(*key).map(|found| found.number()), Some(*number));
                assert!(owned.upgrade().is_some());
            }
            if let Some((key, owned)) = removed.last() {
                assert!(arena.get(*key).is_none() && owned.upgrade().is_none());
            }
        }
        assert!(removed.iter().all(|(key, _)| !arena.contains(*key)));
    });
}

/// Looks up items in several threads while another thread inserts and removes them. Each look-up must find
/// the requested item or nothing.
#[test]
fn look_ups_concurrent_with_inserts_and_removals() {
    let (arena, newest) = (arena(64), AtomicU64::new(u64::MAX));
    let (is_done, found) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let number = newest.load(Ordering::Relaxed);
                    if let Some(item) = arena.get(SlotKey::from_u64(number)) {
                        // The number is stored after the insertion, so it is either the item's own key or 0.
                        let seen = item.number();
                        assert!(seen == number || seen == 0, "found {seen:x} instead of {number:x}");
                        found.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut rounds = 0;
        while found.load(Ordering::Relaxed) < 2_000 || rounds < 20_000 {
            let guard = arena.insert(|slot| slot.number.store(0, Ordering::Relaxed)).expect("there is room");
            let number = SlotKey::of(&*guard).to_u64();
            guard.number.store(number, Ordering::Relaxed);
            newest.store(number, Ordering::Relaxed);
            if rounds % 64 == 0 {
                thread::yield_now();
            }
            drop(guard);
            rounds += 1;
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!(arena.len(), 0);
}
