use alloc::vec::Vec;

use super::drain;
use crate::{Expiry, Tick, TimingWheel, WorkBudget};

#[test]
fn timers_expire_on_time() {
    let mut wheel = TimingWheel::new(Tick(0));
    wheel.schedule(Tick(100), "ping");
    wheel.schedule(Tick(110), "pong");
    wheel.schedule(Tick(1200), "reconnect");
    assert_eq!(drain(&mut wheel, 95), []);
    assert_eq!(drain(&mut wheel, 99), []);
    assert_eq!(drain(&mut wheel, 100), [(100, "ping")]);
    assert_eq!(drain(&mut wheel, 100), []);
    assert_eq!(drain(&mut wheel, 109), []);
    assert_eq!(drain(&mut wheel, 1199), [(110, "pong")]);
    assert_eq!(drain(&mut wheel, 1200), [(1200, "reconnect")]);
    assert!(wheel.is_empty());
}

#[test]
fn past_deadlines_are_due_at_the_next_tick() {
    let mut wheel = TimingWheel::new(Tick(1000));
    wheel.schedule(Tick(0), "long ago");
    wheel.schedule(Tick(999), "just missed");
    wheel.schedule(Tick(1000), "now");
    wheel.schedule(Tick(1001), "next");
    assert_eq!(drain(&mut wheel, 1000), []);
    let due = [(1001, "just missed"), (1001, "long ago"), (1001, "next"), (1001, "now")];
    assert_eq!(drain(&mut wheel, 1001), due);
}

#[test]
fn a_late_timer_keeps_its_requested_deadline() {
    let mut wheel = TimingWheel::new(Tick(1000));
    let key = wheel.schedule(Tick(7), ());
    assert_eq!(wheel.deadline(key), Some(Tick(7)));
    let Expiry::Due(expired) = wheel.expire_next(Tick(2000), &mut WorkBudget::unlimited()) else {
        panic!("not due at 1001")
    };
    assert_eq!((expired.key, expired.deadline), (key, Tick(7)));
    assert_eq!(wheel.now(), Tick(1001));
}

#[test]
fn order_holds_after_a_long_gap() {
    let mut wheel = TimingWheel::new(Tick(3));
    let deadlines = [1 << 40, 70_000, 4, 65_536, 1 << 24, 300, 256, 65_535, (1 << 24) + 1, 1 << 33];
    for deadline in deadlines {
        wheel.schedule(Tick(deadline), deadline);
    }
    let mut sorted = deadlines.map(|deadline| (deadline, deadline));
    sorted.sort();
    assert_eq!(drain(&mut wheel, 1 << 40), sorted);
}

#[test]
fn timers_scheduled_while_draining_expire_in_order() {
    let mut wheel = TimingWheel::new(Tick(0));
    wheel.schedule(Tick(10), 10);
    wheel.schedule(Tick(20), 20);
    let mut seen = Vec::new();
    while let Expiry::Due(expired) = wheel.expire_next(Tick(30), &mut WorkBudget::unlimited()) {
        seen.push((wheel.now().0, expired.value));
        if expired.value == 10 {
            wheel.schedule(Tick(10), 11);
            wheel.schedule(Tick(15), 15);
            wheel.schedule(Tick(31), 31);
        }
        wheel.check_invariants();
    }
    assert_eq!(seen, [(10, 10), (11, 11), (15, 15), (20, 20)]);
    assert_eq!(drain(&mut wheel, 31), [(31, 31)]);
}

#[test]
fn a_drain_terminates_even_if_every_expiry_schedules_another() {
    let mut wheel = TimingWheel::new(Tick(99));
    wheel.schedule(Tick(0), ());
    for now in 100..200 {
        let mut expiries = 0;
        while let Expiry::Due(_) = wheel.expire_next(Tick(now), &mut WorkBudget::unlimited()) {
            expiries += 1;
            wheel.schedule(Tick(now), ());
        }
        assert_eq!(expiries, 1, "at {now}");
    }
}

#[test]
fn time_does_not_go_backwards() {
    let mut wheel = TimingWheel::new(Tick(500));
    wheel.schedule(Tick(510), "a");
    wheel.schedule(Tick(510), "b");
    wheel.schedule(Tick(520), "c");
    assert_eq!(drain(&mut wheel, 100), []);
    assert_eq!(wheel.now(), Tick(500));
    let mut work = WorkBudget::new(1);
    assert!(matches!(wheel.expire_next(Tick(510), &mut work), Expiry::Due(_)));
    // The other timer of tick 510 remains due even if the clock goes backwards.
    assert_eq!(drain(&mut wheel, 0).len(), 1);
    assert_eq!(drain(&mut wheel, 519), []);
    assert_eq!(drain(&mut wheel, 520), [(520, "c")]);
}

#[test]
fn rescheduling_moves_a_timer_both_ways() {
    let mut wheel = TimingWheel::new(Tick(0));
    let later = wheel.schedule(Tick(10), "later");
    let sooner = wheel.schedule(Tick(100_000), "sooner");
    assert!(wheel.reschedule(later, Tick(70_000)));
    assert!(wheel.reschedule(sooner, Tick(5)));
    assert_eq!(wheel.deadline(later), Some(Tick(70_000)));
    assert_eq!(drain(&mut wheel, 69_999), [(5, "sooner")]);
    assert_eq!(drain(&mut wheel, 70_000), [(70_000, "later")]);
}

#[test]
fn a_timer_can_be_postponed_or_cancelled_while_its_tick_is_draining() {
    let mut wheel = TimingWheel::new(Tick(0));
    let keys: Vec<_> = (0..4).map(|value| wheel.schedule(Tick(50), value)).collect();
    let Expiry::Due(first) = wheel.expire_next(Tick(50), &mut WorkBudget::unlimited()) else {
        panic!("none of four timers is due")
    };
    let rest: Vec<_> = keys.into_iter().filter(|&key| key != first.key).collect();
    let put_off = *wheel.get(rest[0]).expect("still pending");
    let cancelled = *wheel.get(rest[1]).expect("still pending");
    assert!(wheel.reschedule(rest[0], Tick(50)));
    assert_eq!(wheel.cancel(rest[1]), Some(cancelled));
    assert_eq!(drain(&mut wheel, 50).len(), 1);
    assert_eq!(drain(&mut wheel, 51), [(51, put_off)]);
}
