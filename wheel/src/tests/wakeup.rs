use alloc::vec::Vec;

use super::seed::with_seeds;
use super::{drain, size};
use crate::{Expiry, Tick, TimingWheel, WorkBudget};

#[test]
fn an_empty_wheel_has_no_wakeup() {
    let wheel = TimingWheel::<()>::new(Tick(7));
    assert_eq!(wheel.next_wakeup(Tick::MAX), None);
}

#[test]
fn the_wakeup_for_a_near_timer_is_exact() {
    let mut wheel = TimingWheel::new(Tick(1000));
    wheel.schedule(Tick(1100), ());
    assert_eq!(wheel.next_wakeup(Tick(1099)), None);
    assert_eq!(wheel.next_wakeup(Tick(1100)), Some(Tick(1100)));
    assert_eq!(wheel.next_wakeup(Tick::MAX), Some(Tick(1100)));
}

#[test]
fn a_distant_timer_wakes_the_wheel_to_cascade() {
    let mut wheel = TimingWheel::new(Tick(0));
    wheel.schedule(Tick(70_000), ());
    let mut wakeups = Vec::new();
    while let Some(tick) = wheel.next_wakeup(Tick::MAX) {
        wakeups.push(tick.0);
        drain(&mut wheel, tick.0);
    }
    assert_eq!(wakeups, [65_536, 69_888, 70_000]);
}

#[test]
fn a_late_timer_is_due_at_the_next_tick() {
    let mut wheel = TimingWheel::new(Tick(1000));
    wheel.schedule(Tick(3), ());
    assert_eq!(wheel.next_wakeup(Tick(1000)), None);
    assert_eq!(wheel.next_wakeup(Tick(1001)), Some(Tick(1001)));
}

#[test]
fn driving_only_at_wakeups_expires_every_timer_on_its_tick() {
    with_seeds(|random| {
        let magnitude = 8 + u32::try_from(random.below(56)).expect("below 56");
        let start = random.ticks(64);
        let mut wheel = TimingWheel::new(Tick(start));
        for _ in 0..size(500, 10) {
            let deadline = Tick(start).saturating_add(random.ticks(magnitude).max(1));
            wheel.schedule(deadline, ());
        }
        while let Some(wakeup) = wheel.next_wakeup(Tick::MAX) {
            assert!(wakeup > wheel.now());
            loop {
                match wheel.expire_next(wakeup, &mut WorkBudget::unlimited()) {
                    Expiry::Due(expired) => assert_eq!(expired.deadline, wakeup),
                    Expiry::UpToDate => break,
                    Expiry::OutOfBudget => unreachable!("the budget is unlimited"),
                }
                if random.one_in(4) {
                    wheel.schedule(wakeup.saturating_add(1 + random.ticks(8)), ());
                }
            }
            if !cfg!(miri) {
                wheel.check_invariants();
            }
        }
        assert!(wheel.is_empty() || wheel.now() == Tick::MAX);
    });
}
