use alloc::vec::Vec;

use super::size;
use crate::{Expiry, Tick, TimingWheel, WorkBudget};

#[test]
fn a_budget_counts_expiries_and_moves() {
    let mut wheel = TimingWheel::new(Tick(0));
    wheel.schedule(Tick(10), "near");
    wheel.schedule(Tick(300), "far");
    let mut work = WorkBudget::new(3);
    assert!(matches!(wheel.expire_next(Tick(300), &mut work), Expiry::Due(_)));
    assert_eq!((wheel.now(), work.remaining()), (Tick(10), 2));
    // The distant timer is in the slot that begins at 256, and moves before it expires.
    assert!(matches!(wheel.expire_next(Tick(300), &mut work), Expiry::Due(_)));
    assert_eq!((wheel.now(), work.remaining()), (Tick(300), 0));
    assert_eq!(wheel.expire_next(Tick(300), &mut work), Expiry::UpToDate, "needs no budget");
}

#[test]
fn nothing_happens_without_budget() {
    let mut wheel = TimingWheel::new(Tick(0));
    wheel.schedule(Tick(10), ());
    let mut work = WorkBudget::new(0);
    assert_eq!(wheel.expire_next(Tick(9), &mut work), Expiry::UpToDate);
    assert_eq!(wheel.expire_next(Tick(20), &mut work), Expiry::OutOfBudget);
    assert_eq!(wheel.expire_next(Tick(20), &mut work), Expiry::OutOfBudget);
    assert_eq!((wheel.now(), wheel.len()), (Tick(9), 1));
}

#[test]
fn a_wheel_with_remaining_work_wakes_immediately() {
    let mut wheel = TimingWheel::new(Tick(0));
    for value in 0..3 {
        wheel.schedule(Tick(10), value);
    }
    assert!(matches!(wheel.expire_next(Tick(50), &mut WorkBudget::new(1)), Expiry::Due(_)));
    assert_eq!(wheel.next_wakeup(Tick(50)), Some(Tick(10)));
    assert_eq!(wheel.next_wakeup(Tick(0)), Some(Tick(10)), "even beyond the limit");
}

#[test]
fn one_unit_at_a_time_yields_the_same_as_all_at_once() {
    let deadlines: Vec<u64> = (0..size(2000, 50) as u64).map(|i| i * i * 37 % 200_000).collect();
    let mut at_once = TimingWheel::new(Tick(0));
    let mut by_unit = TimingWheel::new(Tick(0));
    for &deadline in &deadlines {
        at_once.schedule(Tick(deadline), deadline);
        by_unit.schedule(Tick(deadline), deadline);
    }
    let expected = super::drain(&mut at_once, 200_000);
    let mut due = Vec::new();
    loop {
        let mut work = WorkBudget::new(1);
        match by_unit.expire_next(Tick(200_000), &mut work) {
            Expiry::Due(expired) => due.push((by_unit.now().0, expired.value)),
            Expiry::OutOfBudget => {}
            Expiry::UpToDate => break,
        }
        assert_eq!(work.remaining(), 0);
    }
    due.sort_unstable();
    assert_eq!(due, expected);
}

#[test]
fn the_wheel_may_change_halfway_through_a_cascade() {
    let mut wheel = TimingWheel::new(Tick(0));
    let keys: Vec<_> = (0..10).map(|i| wheel.schedule(Tick(256 + i), i)).collect();
    for spent in 1..=4 {
        let stopped = wheel.expire_next(Tick(256), &mut WorkBudget::new(1));
        assert!(!matches!(stopped, Expiry::UpToDate), "after {spent}");
        wheel.check_invariants();
    }
    assert_eq!(wheel.now(), Tick(256));
    // Schedule timers one revolution after the beginning and after the end of the slot that is being emptied.
    wheel.schedule(Tick(256 + 65_536), 100);
    wheel.schedule(Tick(511 + 65_280), 101);
    wheel.schedule(Tick(256), 102);
    for &key in &keys[1..5] {
        assert!(wheel.reschedule(key, Tick(400)));
    }
    for &key in &keys[5..] {
        assert!(wheel.cancel(key).is_some());
    }
    wheel.check_invariants();
    let due = super::drain(&mut wheel, 1 << 20);
    let ticks: Vec<_> = due.into_iter().filter(|&(_, value)| value != 0).collect();
    assert_eq!(ticks, [(257, 102), (400, 1), (400, 2), (400, 3), (400, 4), (65_791, 101), (65_792, 100)]);
}
