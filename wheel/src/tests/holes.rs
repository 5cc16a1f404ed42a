//! Tests that the holes left by cancelled and moved timers do not accumulate and are never mistaken for valid
//! entries.

use alloc::string::String;
use alloc::vec::Vec;

use super::{drain, size};
use crate::wheel::check::OWNERS_PER_PAGE;
use crate::{Expiry, Tick, TimerKey, TimingWheel, WorkBudget};

/// A tick so distant that the wheel never reaches the entries left in its slot.
const FAR: u64 = 1 << 40;

/// Panics if timers and holes together exceed one and a half times the number of timers that the pages can hold,
/// plus the holes that may be added before a sweep takes effect.
#[track_caller]
fn check_few_holes<T>(wheel: &TimingWheel<T>) {
    let room = wheel.pages() * usize::try_from(OWNERS_PER_PAGE).expect("a page is small");
    let (timers, holes) = (wheel.len(), wheel.holes());
    assert!(timers + holes <= room + room / 2 + 64, "{timers} timers, {holes} holes, room for {room}");
}

#[test]
fn cancelling_leaves_few_holes() {
    for kept in [1, 10, 30, 100] {
        let mut wheel = TimingWheel::new(Tick(0));
        let kept: Vec<_> = (0..kept).map(|number| wheel.schedule(Tick(FAR + number % 3), number)).collect();
        for number in 0..size(20_000, 60) as u64 {
            let key = wheel.schedule(Tick(FAR + number % 5), number);
            assert_eq!(wheel.cancel(key), Some(number));
            check_few_holes(&wheel);
        }
        wheel.check_invariants();
        for key in kept {
            assert!(wheel.cancel(key).is_some());
        }
    }
}

#[test]
fn moving_leaves_few_holes() {
    let mut wheel = TimingWheel::new(Tick(0));
    let keys: Vec<_> = (0..100).map(|number| wheel.schedule(Tick(2 * FAR), number)).collect();
    for round in 1..size(500, 3) as u64 {
        for key in &keys {
            assert!(wheel.reschedule(*key, Tick(2 * FAR - round)));
            check_few_holes(&wheel);
        }
    }
    wheel.check_invariants();
}

#[test]
fn scheduling_into_sparse_pages_leaves_few_holes() {
    let timers = size(4096, 64);
    let mut wheel = TimingWheel::new(Tick(0));
    let mut keys: Vec<TimerKey> = (0..timers).map(|number| wheel.schedule(Tick(FAR), number)).collect();
    for _ in 0..3 {
        for number in 0..timers {
            let key = wheel.schedule(Tick(FAR + 1), number);
            wheel.cancel(key);
        }
        keys.sort_by_key(|key| key.index);
        for (number, key) in keys.iter().enumerate() {
            if !(number as u64).is_multiple_of(OWNERS_PER_PAGE) {
                assert!(wheel.cancel(*key).is_some());
            }
        }
        keys = keys.into_iter().step_by(usize::try_from(OWNERS_PER_PAGE).expect("a page is small")).collect();
        while keys.len() < timers {
            keys.push(wheel.schedule(Tick(FAR), 0));
            check_few_holes(&wheel);
        }
    }
    wheel.check_invariants();
}

#[test]
fn expiring_leaves_few_holes() {
    let timers = size(8192, 96) as u64;
    let mut wheel = TimingWheel::new(Tick(0));
    for number in 0..timers {
        wheel.schedule(Tick(100 + number % 50), number);
    }
    let anchors = [(); 2].map(|()| wheel.schedule(Tick(FAR), 0));
    for number in 0..2 * timers {
        let key = wheel.schedule(Tick(FAR), number);
        wheel.cancel(key);
    }
    assert!(anchors.iter().all(|key| wheel.cancel(*key).is_some()));
    drain(&mut wheel, 1000);
    // When the last timers expire, all pages are freed together. Driving over ticks without timers sweeps the
    // remaining holes.
    for tick in 1000..1100 {
        assert_eq!(wheel.expire_next(Tick(tick), &mut WorkBudget::unlimited()), Expiry::UpToDate);
    }
    check_few_holes(&wheel);
    wheel.check_invariants();
}

/// Sweeping continues in the memory that remains allocated after the peak.
#[test]
fn few_holes_remain_after_a_peak() {
    let peak = size(50_000, 100) as u64;
    let mut wheel = TimingWheel::new(Tick(0));
    let mut keys: Vec<_> = (0..peak).map(|number| wheel.schedule(Tick(1_000_000 + number), number)).collect();
    for (number, key) in (0..).zip(&mut keys) {
        wheel.cancel(*key);
        *key = wheel.schedule(Tick(1_000_000 + number * 7919 % peak), number);
    }
    drain(&mut wheel, 2_000_000);
    for number in 0..2 * peak {
        let key = wheel.schedule(Tick(FAR), number);
        let other = wheel.schedule(Tick(FAR), number);
        wheel.cancel(key);
        wheel.cancel(other);
    }
    check_few_holes(&wheel);
    wheel.check_invariants();
}

#[test]
fn holes_of_freed_pages_are_skipped() {
    let mut wheel = TimingWheel::new(Tick(0));
    let kept = size(17_000, 100) as u64;
    for number in 0..kept {
        wheel.schedule(Tick(70_000), number);
    }
    let last: Vec<_> =
        (0..size(1000, 300) as u64).map(|number| wheel.schedule(Tick(70_000), number)).collect();
    for key in last {
        wheel.cancel(key);
    }
    assert_eq!(drain(&mut wheel, 80_000).len() as u64, kept);
}

#[test]
fn a_key_of_another_wheel_cancels_nothing() {
    let mut large = TimingWheel::new(Tick(0));
    large.schedule(Tick(1), String::new());
    let key = large.schedule(Tick(1), String::new());
    let mut small = TimingWheel::new(Tick(0));
    let own = small.schedule(Tick(1), String::from("own"));
    assert_eq!(small.cancel(key), None);
    assert_eq!(small.len(), 1);
    small.check_invariants();
    assert_eq!(small.cancel(own), Some(String::from("own")));
}

/// When the budget runs out because of holes, `next_wakeup` returns the tick at which work remains.
#[test]
fn holes_consume_the_budget() {
    let mut wheel = TimingWheel::new(Tick(0));
    let keys: Vec<_> = (0..10).map(|number| wheel.schedule(Tick(50), number)).collect();
    for key in keys {
        wheel.cancel(key);
    }
    assert_eq!(wheel.expire_next(Tick(50), &mut WorkBudget::new(3)), Expiry::OutOfBudget);
    assert_eq!(wheel.next_wakeup(Tick(50)), Some(Tick(50)));
    assert_eq!(wheel.expire_next(Tick(50), &mut WorkBudget::new(7)), Expiry::UpToDate);
    assert_eq!(wheel.next_wakeup(Tick::MAX), None);
}
