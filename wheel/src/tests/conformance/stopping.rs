//! Tests of stopping at any point, changing the queue there, and continuing.

use alloc::vec::Vec;

use super::seed::with_seeds;
use super::{QueueUnderTest, ahead, drain, schedule, size, window};
use crate::{Expiry, Tick, WorkBudget};

pub(super) fn nothing_expires_without_budget<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(0));
    let deadline = ahead(&queue, 10);
    let (_, latest) = window(&queue, deadline).expect("in the future");
    schedule(&mut queue, deadline, 1);
    for _ in 0..3 {
        assert_eq!(queue.expire_next(Tick(latest), &mut WorkBudget::new(0)), Expiry::OutOfBudget);
        queue.check();
    }
    assert_eq!(queue.len(), 1);
    assert!(queue.now().0 <= latest);
    assert_eq!(drain(&mut queue, latest).len(), 1);
}

pub(super) fn one_unit_at_a_time_yields_the_same_as_all_at_once<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let deadlines: Vec<u64> = (0..size(700, 8) as u64).map(|i| 1 + i * i * 37 % 20_000).collect();
    let (mut at_once, mut by_unit) = (at(Tick(0)), at(Tick(0)));
    for (&deadline, number) in deadlines.iter().zip(0..) {
        let deadline = ahead(&at_once, deadline);
        schedule(&mut at_once, deadline, number);
        schedule(&mut by_unit, deadline, number);
    }
    let end = 30_000;
    let expected = drain(&mut at_once, end);
    assert_eq!(expected.len(), deadlines.len());
    let mut due = Vec::new();
    loop {
        let mut work = WorkBudget::new(1);
        match by_unit.expire_next(Tick(end), &mut work) {
            Expiry::Due(expired) => due.push((by_unit.now().0, expired.value)),
            Expiry::OutOfBudget => assert!(by_unit.next_wakeup(Tick(end)).is_some(), "work remains"),
            Expiry::UpToDate => break,
        }
        assert_eq!(work.remaining(), 0);
    }
    by_unit.check();
    due.sort_unstable();
    assert_eq!(due, expected);
}

/// Drives with budgets of up to three units and changes the queue after each call. The timers left at the end
/// must still expire.
pub(super) fn the_queue_may_change_wherever_it_stops<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    with_seeds(|random| {
        let mut queue = at(Tick(100));
        let mut keys = Vec::new();
        let mut alive = 0;
        for value in 0..size(100, 5) as u64 {
            let deadline = ahead(&queue, 40 + random.below(4));
            keys.push(schedule(&mut queue, deadline, value));
            alive += 1;
        }
        for changes in 0.. {
            match queue.expire_next(Tick(1000), &mut WorkBudget::new(random.below(4))) {
                Expiry::Due(_) => alive -= 1,
                Expiry::OutOfBudget => {}
                Expiry::UpToDate => break,
            }
            queue.check();
            let key = keys[usize::try_from(random.below(keys.len() as u64)).expect("an index")];
            // Make changes rare after a while. Otherwise the test would not terminate in a scheme in which
            // each change causes a whole pass.
            match random.below(if changes < size(300, 10) { 6 } else { 60 }) {
                0 => alive -= usize::from(queue.cancel(key).is_some()),
                1 => {
                    let deadline = ahead(&queue, random.below(20));
                    queue.reschedule(key, deadline).expect("within the horizon");
                }
                2 if changes < size(300, 10) => {
                    let deadline = ahead(&queue, random.below(20));
                    keys.push(schedule(&mut queue, deadline, 0));
                    alive += 1;
                }
                _ => {}
            }
            queue.check();
            assert_eq!(queue.len(), alive);
        }
        assert_eq!((queue.now(), alive), (Tick(1000), drain(&mut queue, 1100).len()));
    });
}

pub(super) fn a_drain_terminates_even_if_every_expiry_schedules_another<Q: QueueUnderTest>(
    at: fn(Tick) -> Q,
) {
    let mut queue = at(Tick(99));
    schedule(&mut queue, Tick(0), 0);
    let mut expiries = 0;
    let steps = size(200, 10) as u64;
    for now in 100..100 + steps {
        let before = expiries;
        while let Expiry::Due(_) = queue.expire_next(Tick(now), &mut WorkBudget::unlimited()) {
            expiries += 1;
            schedule(&mut queue, Tick(now), 0);
        }
        queue.check();
        assert!(expiries <= before + 1, "at {now}");
    }
    assert!(expiries >= steps / (1 + queue.precision(0)));
}

pub(super) fn timers_scheduled_while_draining_expire_in_order<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(0));
    let rounds = size(20, 4) as u64;
    schedule(&mut queue, Tick(1), 0);
    let mut drained = Vec::new();
    while let Expiry::Due(expired) = queue.expire_next(Tick(2000), &mut WorkBudget::unlimited()) {
        drained.push((queue.now().0, expired.value));
        if expired.value < rounds {
            let deadline = ahead(&queue, 7);
            schedule(&mut queue, Tick(0), 100 + expired.value);
            schedule(&mut queue, deadline, expired.value + 1);
        }
        queue.check();
    }
    assert!(drained.is_sorted_by_key(|&(tick, _)| tick), "{drained:?}");
    for value in 0..rounds {
        let tick_of = |wanted| drained.iter().find(|&&(_, value)| value == wanted).expect("expired").0;
        let late = tick_of(100 + value) - tick_of(value);
        assert!(late >= 1 && late <= 1 + queue.precision(0), "{drained:?}");
        assert!(tick_of(value + 1) > tick_of(value));
    }
    assert_eq!(drained.len() as u64, 2 * rounds + 1);
}
