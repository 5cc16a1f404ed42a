//! Also under every interleaving: `a_look_up_finds_its_own_or_nothing` in `server/tests/loom.rs`.
//!
//! `ENCKE_SEED=<n>` runs one seed of the random test; without it, a fixed range and one fresh seed.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::seeds::with_seeds;

/// A number, and something that it owns.
#[derive(Debug)]
struct Numbered {
    index: u32,
    life: Life,
    number: AtomicU64,
    owned: Mutex<Option<Arc<()>>>,
}

impl Slot for Numbered {
    fn vacant(index: u32) -> Self {
        Self { index, life: Life::new(), number: AtomicU64::new(0), owned: Mutex::new(None) }
    }

    fn index(&self) -> u32 {
        self.index
    }

    fn life(&self) -> &Life {
        &self.life
    }

    fn vacate(&self) {
        *self.owned.lock() = None;
    }
}

impl Numbered {
    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}

fn arena(limit: usize) -> Arc<Arena<Numbered>> {
    Arc::new(Arena::new(limit))
}

fn enter(arena: &Arc<Arena<Numbered>>, number: u64) -> (Held<Numbered>, Ref, Weak<()>) {
    let owned = Arc::new(());
    let weak = Arc::downgrade(&owned);
    let held = arena.enter(|slot| {
        slot.number.store(number, Ordering::Relaxed);
        *slot.owned.lock() = Some(owned);
    });
    let held = held.expect("there is room");
    let reference = Ref::of(&*held);
    (held, reference, weak)
}

#[test]
fn a_thing_is_found_until_the_last_hold_ends() {
    let arena = arena(10);
    let (held, reference, owned) = enter(&arena, 7);
    let found = arena.get(reference).expect("it is held");
    drop(held);
    assert!(arena.has(reference) && arena.get(reference).is_some(), "it is still held");
    let again = arena.hold(&found);
    drop(found);
    assert_eq!((again.number(), again.clone().number(), arena.len()), (7, 7, 1));
    arena.keep(&again);
    drop(again);
    assert_eq!(arena.kept(reference.index()).number(), 7);
    arena.let_go(arena.kept(reference.index()));
    assert!(!arena.has(reference) && arena.get(reference).is_none() && arena.at(reference.index()).is_none());
    assert!(owned.upgrade().is_none(), "it has given up what it owned");
    assert_eq!(arena.len(), 0);
}

#[test]
fn a_stale_reference_does_not_find_the_next_thing_of_its_slot() {
    let arena = arena(10);
    let (first, stale, _) = enter(&arena, 1);
    drop(first);
    let (_second, reference, _) = enter(&arena, 2);
    assert_eq!(stale.index(), reference.index());
    assert!(!arena.has(stale) && arena.get(stale).is_none());
    assert_eq!(arena.at(stale.index()).map(|found| found.number()), Some(2), "whichever is there");
    assert_eq!(Ref::of_number(reference.number()), reference);
    assert!(arena.get(Ref::of_number(u64::MAX)).is_none(), "of no arena's");
}

#[test]
fn slots_are_used_again_and_there_are_no_more_than_the_limit() {
    let arena = arena(600);
    for number in 0..10_000 {
        drop(enter(&arena, number));
    }
    assert_eq!(arena.vacant.lock().unused, 1, "nothing grows");
    let (mut all, mut refused) = (Vec::new(), 0);
    for _ in 0..2_000 {
        match arena.enter(|_| {}) {
            Some(held) => all.push(held),
            None => refused += 1,
        }
    }
    assert_eq!((all.len(), refused), (1024, 976), "whole chunks are made");
    let first = Ref::of(&*all[0]);
    drop(all);
    assert_eq!(arena.len(), 0);
    assert!(arena.get(first).is_none());
    assert!(arena.enter(|_| {}).is_some(), "there is room again");
}

#[test]
fn all_that_are_there_are_gone_through_in_the_order_of_their_slots() {
    let arena = arena(2_000);
    let mut all: Vec<_> = (0..1_500).map(|number| enter(&arena, number)).collect();
    let mut number = 0;
    all.retain(|_| {
        number += 1;
        number % 3 == 0
    });
    let found: Vec<_> = arena.from(600).map(|found| found.number()).collect();
    let expected: Vec<_> = (600..1_500).filter(|number| number % 3 == 2).collect();
    assert_eq!(found, expected);
}

/// Against a list of all that are there.
#[test]
fn random_comings_and_goings() {
    with_seeds(0..20, |seed| {
        let mut rng = StdRng::seed_from_u64(seed);
        let arena = arena(1_024);
        let mut there: Vec<(Held<Numbered>, Ref, u64, Weak<()>)> = Vec::new();
        let mut gone = Vec::new();
        for number in 0..5_000 {
            let at = rng.random_range(0..=there.len());
            if at < there.len() && rng.random_bool(0.45) {
                let (held, reference, number, owned) = there.swap_remove(at);
                assert_eq!(held.number(), number);
                drop(held);
                gone.push((reference, owned));
            } else if at < there.len() && rng.random_bool(0.2) {
                let held = there[at].0.clone();
                there[at].0 = held;
            } else if let (Some(held), true) = (arena.enter(|_| {}), there.len() < 1_000) {
                let owned = Arc::new(());
                held.number.store(number, Ordering::Relaxed);
                *held.owned.lock() = Some(Arc::clone(&owned));
                let reference = Ref::of(&*held);
                there.push((held, reference, number, Arc::downgrade(&owned)));
            }
            assert_eq!(arena.len(), there.len());
            if let Some((_, reference, number, owned)) = there.last() {
                assert_eq!(arena.get(*reference).map(|found| found.number()), Some(*number));
                assert!(owned.upgrade().is_some());
            }
            if let Some((reference, owned)) = gone.last() {
                assert!(arena.get(*reference).is_none() && owned.upgrade().is_none());
            }
        }
        assert!(gone.iter().all(|(reference, _)| !arena.has(*reference)));
    });
}

/// Threads look for what others put in and let go: they find what they look for, or nothing.
#[test]
fn look_ups_beside_things_that_come_and_go() {
    let (arena, newest) = (arena(64), AtomicU64::new(u64::MAX));
    let (is_over, found) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    let number = newest.load(Ordering::Relaxed);
                    if let Some(thing) = arena.get(Ref::of_number(number)) {
                        // It is filled after it is entered: with its own reference, or with nothing.
                        let seen = thing.number();
                        assert!(seen == number || seen == 0, "{seen:x} where {number:x} was looked for");
                        found.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut rounds = 0;
        while found.load(Ordering::Relaxed) < 2_000 || rounds < 20_000 {
            let held = arena.enter(|slot| slot.number.store(0, Ordering::Relaxed)).expect("there is room");
            let number = Ref::of(&*held).number();
            held.number.store(number, Ordering::Relaxed);
            newest.store(number, Ordering::Relaxed);
            if rounds % 64 == 0 {
                thread::yield_now();
            }
            drop(held);
            rounds += 1;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(arena.len(), 0);
}
