//! Tests that a key identifies one timer and never another.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::num::{NonZeroU32, NonZeroU64};

use super::{drain, size};
use crate::wheel::check::OWNERS_PER_PAGE;
use crate::{Tick, TimerKey, TimingWheel};

#[test]
fn a_key_is_eight_bytes() {
    assert_eq!(size_of::<TimerKey>(), 8);
    assert_eq!(size_of::<Option<TimerKey>>(), 8);
}

#[test]
fn keys_convert_to_bits_and_back() {
    for (index, generation) in [(0, 1), (0, 3), (1, 1), ((1 << 30) - 1, u32::MAX), (u32::MAX - 1, u32::MAX)] {
        let key = TimerKey { index, generation: NonZeroU32::new(generation).expect("not 0") };
        assert!(key.to_bits().get() < 1 << 63);
        assert_eq!(TimerKey::from_bits(key.to_bits()), key);
    }
    let wheel: TimingWheel<()> = TimingWheel::new(Tick(0));
    for number in [1, 2, 1 << 32, 1 << 63, u64::MAX] {
        let number = NonZeroU64::new(number).expect("not 0");
        assert_eq!(wheel.get(TimerKey::from_bits(number)), None);
    }
}

#[test]
fn a_stale_key_finds_nothing_even_if_its_memory_is_reused() {
    let mut wheel = TimingWheel::new(Tick(0));
    let cancelled = wheel.schedule(Tick(10), "cancelled");
    assert_eq!(wheel.cancel(cancelled), Some("cancelled"));
    let expired = wheel.schedule(Tick(20), "expired");
    assert_eq!(drain(&mut wheel, 20), [(20, "expired")]);
    let alive = wheel.schedule(Tick(30), "alive");
    assert_eq!(cancelled.index, alive.index);
    for stale in [cancelled, expired] {
        assert_eq!(wheel.deadline(stale), None);
        assert_eq!(wheel.get(stale), None);
        assert!(!wheel.reschedule(stale, Tick(40)));
        assert!(!wheel.reschedule_within(stale, Tick(40)..=Tick(50)));
        assert!(!wheel.reschedule_within(stale, Tick(0)..=Tick(50)));
        assert_eq!(wheel.cancel(stale), None);
        wheel.check_invariants();
    }
    assert_eq!(wheel.get(alive), Some(&"alive"));
    assert_eq!(drain(&mut wheel, 30), [(30, "alive")]);
}

#[test]
fn a_key_of_a_larger_wheel_finds_nothing() {
    let mut large = TimingWheel::new(Tick(0));
    large.schedule(Tick(1), ());
    let key = large.schedule(Tick(1), ());
    let mut small = TimingWheel::new(Tick(0));
    small.schedule(Tick(1), ());
    assert_eq!(small.cancel(key), None);
    assert_eq!(small.deadline(key), None);
}

#[test]
fn memory_is_reused() {
    let mut wheel = TimingWheel::new(Tick(0));
    for now in 0..size(1000, 8) as u64 {
        let [kept, cancelled] = [1, 2].map(|ahead| wheel.schedule(Tick(now + ahead), now));
        assert_eq!(wheel.cancel(cancelled), Some(now));
        assert_eq!(drain(&mut wheel, now + 1), [(now + 1, now)]);
        assert_eq!(wheel.cancel(kept), None);
    }
    assert_eq!(wheel.pages(), 1);
}

#[test]
fn memory_whose_generations_have_run_out_is_retired() {
    let mut wheel = TimingWheel::new(Tick(0));
    let first = wheel.schedule(Tick(1), 2);
    let last = wheel.last_generation(first);
    assert_eq!((last.index, last.generation), (0, NonZeroU32::MAX));
    assert_eq!(wheel.cancel(last), Some(2));
    wheel.check_invariants();
    let next = wheel.schedule(Tick(1), 3);
    assert_eq!(next.index, 1);
    assert_eq!(wheel.cancel(last), None);
    assert_eq!(wheel.get(first), None);
    wheel.check_invariants();
}

/// Number of timers that, with ten more, fill twenty pages.
const MANY: u64 = 20 * OWNERS_PER_PAGE - 10;

#[test]
fn empty_pages_are_freed() {
    let mut wheel = TimingWheel::new(Tick(0));
    let first: Vec<_> = (0..10).map(|number| wheel.schedule(Tick(50_000), number)).collect();
    let many: Vec<_> = (0..MANY).map(|number| wheel.schedule(Tick(1 + number), number)).collect();
    assert_eq!(wheel.pages(), 20);
    drain(&mut wheel, MANY);
    assert_eq!(wheel.pages(), 9, "one in use, and the spares");
    for stale in &many {
        assert_eq!(wheel.get(*stale), None);
    }
    let again: Vec<_> = (0..MANY).map(|number| wheel.schedule(Tick(60_000), number)).collect();
    let indices = |keys: &[TimerKey]| keys.iter().map(|key| key.index).collect::<BTreeSet<_>>();
    assert_eq!(indices(&many), indices(&again));
    let names: BTreeSet<_> = again.iter().map(|key| (key.index, key.generation)).collect();
    for old in &many {
        assert!(!names.contains(&(old.index, old.generation)));
        assert_eq!(wheel.cancel(*old), None);
    }
    wheel.check_invariants();
    for key in first.into_iter().chain(again) {
        assert!(wheel.cancel(key).is_some());
    }
    assert_eq!(wheel.pages(), 8);
    wheel.check_invariants();
}

#[test]
fn values_are_dropped_once() {
    use std::rc::Rc;
    let value = Rc::new(());
    let mut wheel = TimingWheel::new(Tick(0));
    let apart = size(1, 20);
    let deadlines = (0..2000).step_by(apart);
    let keys: Vec<_> = deadlines.map(|tick| wheel.schedule(Tick(tick), Rc::clone(&value))).collect();
    drop(wheel.cancel(keys[1500 / apart]));
    drain(&mut wheel, 1000);
    assert_eq!(Rc::strong_count(&value), 1 + (1000 / apart - 1) - 1);
    drop(wheel);
    assert_eq!(Rc::strong_count(&value), 1);
}
