//! Sleeping until there is something to do.

use alloc::vec::Vec;

use super::seed::with_seeds;
use super::{drain, size};
use crate::{Expire, Tick, TimingWheel, Work};

#[test]
fn an_empty_wheel_needs_no_waking() {
    let wheel = TimingWheel::<()>::new(Tick(7));
    assert_eq!(wheel.next_wakeup(Tick::MAX), None);
}

#[test]
fn a_near_timer_is_known_exactly() {
    let mut wheel = TimingWheel::new(Tick(1000));
    wheel.schedule(Tick(1100), ());
    assert_eq!(wheel.next_wakeup(Tick(1099)), None);
    assert_eq!(wheel.next_wakeup(Tick(1100)), Some(Tick(1100)));
    assert_eq!(wheel.next_wakeup(Tick::MAX), Some(Tick(1100)));
}

#[test]
fn a_far_timer_wants_to_be_moved_on_the_way() {
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

/// Woken only when the wheel wants to be, one still finds every timer on its tick.
#[test]
fn wakeups_alone_find_every_timer_on_its_tick() {
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
                match wheel.expire_next(wakeup, &mut Work::unlimited()) {
                    Expire::Due(expired) => assert_eq!(expired.deadline, wakeup),
                    Expire::UpToDate => break,
                    Expire::OutOfWork => unreachable!("the budget is unlimited"),
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
