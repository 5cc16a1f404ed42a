//! Tests at the boundaries of levels and revolutions and at both ends of time.

use alloc::vec::Vec;

use super::{drain, size};
use crate::{Expiry, LEVELS, Tick, TimingWheel, WorkBudget};

/// Returns ticks on and around the boundaries of every level, and both ends of time.
fn boundaries() -> Vec<u64> {
    let mut ticks = Vec::from([0, 1, 2, 1000, u64::MAX - 1, u64::MAX]);
    for bits in (8..u64::BITS).step_by(8) {
        let turn = 1_u64 << bits;
        for base in [turn, 3 * turn, u64::MAX - turn + 1, 0xabcd_ef01_2345_6789 / turn * turn] {
            ticks.extend([base - 1, base, base + 1]);
        }
    }
    ticks
}

#[test]
fn one_timer_expires_on_its_tick_for_every_pair_of_boundaries() {
    for start in boundaries() {
        for delta in boundaries() {
            let Some(deadline) = start.checked_add(delta.max(1)) else { continue };
            if cfg!(miri) && !(start ^ delta.rotate_left(7)).is_multiple_of(397) {
                continue;
            }
            let mut wheel = TimingWheel::new(Tick(start));
            wheel.schedule(Tick(deadline), deadline);
            wheel.check_invariants();
            assert_eq!(drain(&mut wheel, deadline - 1), [], "{start} + {delta}");
            assert_eq!(drain(&mut wheel, deadline), [(deadline, deadline)], "{start} + {delta}");
        }
    }
}

#[test]
fn timers_on_all_boundaries_expire_in_order() {
    let starts = boundaries().into_iter().step_by(size(1, 31));
    for start in starts {
        let mut wheel = TimingWheel::new(Tick(start));
        let mut deadlines: Vec<_> = boundaries().into_iter().filter(|&deadline| deadline > start).collect();
        for &deadline in &deadlines {
            wheel.schedule(Tick(deadline), deadline);
        }
        deadlines.sort_unstable();
        let expected: Vec<_> = deadlines.iter().map(|&deadline| (deadline, deadline)).collect();
        assert_eq!(drain(&mut wheel, u64::MAX), expected, "from {start}");
    }
}

#[test]
fn stepping_over_every_wrap_tick_by_tick() {
    for bits in (8..u64::BITS).step_by(size(8, 48)) {
        let wrap = 1_u64 << bits;
        let (start, steps) = (wrap - 40, size(80, 45) as u64);
        let mut wheel = TimingWheel::new(Tick(start));
        for deadline in start + 1..start + steps {
            wheel.schedule(Tick(deadline), deadline);
        }
        for now in start + 1..start + steps {
            assert_eq!(drain(&mut wheel, now), [(now, now)]);
            // Schedule one full revolution ahead: on the same level, this would be the same slot.
            let key = wheel.schedule(Tick(now + wrap), 0);
            assert_eq!(wheel.cancel(key), Some(0));
        }
    }
}

#[test]
fn each_level_holds_timers_less_than_its_revolution_ahead() {
    let mut wheel = TimingWheel::new(Tick(0));
    for bits in (0..u64::BITS).step_by(8) {
        wheel.schedule(Tick(1 << bits), ());
        let last = 1_u64.checked_shl(bits + 8).map_or(u64::MAX, |turn| turn - 1);
        wheel.schedule(Tick(last), ());
    }
    assert_eq!(wheel.occupancy(), [2; LEVELS]);

    // From the last tick of a slot, 65_535 ticks cross 256 boundaries, one too many for level 1.
    let mut wheel = TimingWheel::new(Tick(255));
    wheel.schedule(Tick(255 + 65_535), ());
    assert_eq!(wheel.occupancy(), [0, 0, 1, 0, 0, 0, 0, 0]);
    wheel.schedule(Tick(255 + 65_280), ());
    assert_eq!(wheel.occupancy(), [0, 1, 1, 0, 0, 0, 0, 0]);
    wheel.check_invariants();
}

#[test]
fn timers_expire_on_the_last_tick() {
    let mut wheel = TimingWheel::new(Tick(0));
    wheel.schedule(Tick::MAX, "last");
    wheel.schedule(Tick(u64::MAX - 1), "second to last");
    assert_eq!(drain(&mut wheel, u64::MAX - 2), []);
    assert_eq!(drain(&mut wheel, u64::MAX - 1), [(u64::MAX - 1, "second to last")]);
    assert_eq!(drain(&mut wheel, u64::MAX), [(u64::MAX, "last")]);
}

#[test]
fn after_the_last_tick_nothing_expires_but_all_can_be_cancelled() {
    let mut wheel = TimingWheel::new(Tick::MAX);
    let keys = [Tick(0), Tick(5), Tick(u64::MAX - 1), Tick::MAX]
        .map(|deadline| wheel.schedule(deadline, deadline.0));
    let ranged = wheel.schedule_within(Tick(3)..=Tick::MAX, 3);
    assert_eq!(drain(&mut wheel, u64::MAX), []);
    assert_eq!(wheel.next_wakeup(Tick::MAX), None);
    assert!(wheel.reschedule(keys[0], Tick::MAX));
    assert_eq!(drain(&mut wheel, u64::MAX), []);
    assert_eq!(wheel.len(), 5);
    assert_eq!(keys.map(|key| wheel.cancel(key)), [0, 5, u64::MAX - 1, u64::MAX].map(Some));
    assert_eq!(wheel.cancel(ranged), Some(3));
    wheel.check_invariants();
}

#[test]
fn draining_the_last_tick_terminates() {
    let mut wheel = TimingWheel::new(Tick(u64::MAX - 1));
    wheel.schedule(Tick::MAX, 0);
    let mut expiries = 0;
    while let Expiry::Due(_) = wheel.expire_next(Tick::MAX, &mut WorkBudget::unlimited()) {
        expiries += 1;
        wheel.schedule(Tick::MAX, expiries);
        wheel.check_invariants();
    }
    assert_eq!((expiries, wheel.len()), (1, 1));
}

#[test]
fn a_hundred_thousand_timers_on_one_tick() {
    let count = size(100_000, 32);
    for distance in [1, 255, 256, 300, 65_536, 70_000, 1 << 40] {
        let mut wheel = TimingWheel::new(Tick(0));
        let keys: Vec<_> = (0..count).map(|value| wheel.schedule(Tick(distance), value)).collect();
        for key in keys.iter().step_by(3) {
            assert!(wheel.cancel(*key).is_some());
        }
        assert_eq!(drain(&mut wheel, distance - 1), []);
        let expected: Vec<_> =
            (0..count).filter(|value| value % 3 != 0).map(|value| (distance, value)).collect();
        assert_eq!(drain(&mut wheel, distance), expected);
    }
}

#[test]
fn a_long_gap_costs_no_more_than_a_short_one() {
    let mut wheel = TimingWheel::new(Tick(1));
    let far = [1 << 40, (1 << 40) + 1, u64::MAX];
    for deadline in far {
        wheel.schedule(Tick(deadline), deadline);
    }
    // Each timer expires once and moves down at most seven times. A wheel that visited every tick or
    // revolution would never finish this test.
    let mut work = WorkBudget::new((far.len() * LEVELS) as u64);
    for deadline in far {
        let Expiry::Due(expired) = wheel.expire_next(Tick::MAX, &mut work) else {
            panic!("{deadline} is not due")
        };
        assert_eq!(expired.value, deadline);
    }
    assert_eq!(wheel.expire_next(Tick::MAX, &mut work), Expiry::UpToDate);
}
