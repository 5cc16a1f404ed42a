//! Tests at the boundaries of revolutions and at the end of time.

use alloc::vec::Vec;

use super::{QueueUnderTest, ahead, drain, schedule, size, window};
use crate::{Expiry, Tick, TimerQueue, WorkBudget};

pub(super) fn timers_expire_on_the_last_tick<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    for before in [1, 3, 60, 1000] {
        let mut queue = at(Tick(u64::MAX - before));
        if queue.horizon().is_some_and(|horizon| horizon < before) {
            continue;
        }
        schedule(&mut queue, Tick::MAX, 1);
        assert_eq!(drain(&mut queue, u64::MAX - 1), [], "from {before} before");
        assert_eq!(drain(&mut queue, u64::MAX), [(u64::MAX, 1)], "from {before} before");
        assert_eq!(queue.next_wakeup(Tick::MAX), None);
    }
}

pub(super) fn after_the_last_tick_nothing_expires_but_all_can_be_cancelled<Q: QueueUnderTest>(
    at: fn(Tick) -> Q,
) {
    let mut queue = at(Tick(u64::MAX - 1));
    drain(&mut queue, u64::MAX);
    let deadlines = [0, 5, u64::MAX - 1, u64::MAX];
    let keys = deadlines.map(|deadline| schedule(&mut queue, Tick(deadline), deadline));
    let ranged = queue.schedule_within(Tick(3)..=Tick::MAX, 3).expect("within the horizon");
    assert_eq!(drain(&mut queue, u64::MAX), []);
    assert_eq!(queue.next_wakeup(Tick::MAX), None);
    assert_eq!(queue.reschedule(keys[0], Tick::MAX), Ok(true));
    assert_eq!(drain(&mut queue, u64::MAX), []);
    assert_eq!(queue.len(), 5);
    assert_eq!(keys.map(|key| queue.cancel(key)), deadlines.map(Some));
    assert_eq!(queue.cancel(ranged), Some(3));
    assert_eq!(queue.cancel(ranged), None);
    queue.check();
    assert!(queue.is_empty());
}

pub(super) fn draining_the_last_tick_terminates<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(u64::MAX - 1));
    for value in 0..3 {
        schedule(&mut queue, Tick::MAX, value);
    }
    let mut expiries = 0;
    while let Expiry::Due(_) = queue.expire_next(Tick::MAX, &mut WorkBudget::unlimited()) {
        expiries += 1;
        schedule(&mut queue, Tick::MAX, 100);
        queue.check();
    }
    assert_eq!((expiries, queue.len()), (3, 3));
}

/// Uses a few timers as far apart as the scheme allows. A scheme that visited every tick or revolution would
/// never finish this test.
pub(super) fn driving_through_all_of_time_terminates<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(1));
    let far = [3, 1 << 20, (1 << 40) - 1, 1 << 40, (1 << 40) + 1, u64::MAX - 1, u64::MAX];
    let deadlines: Vec<_> = far.iter().map(|&far| ahead(&queue, far)).collect();
    for &deadline in &deadlines {
        schedule(&mut queue, deadline, deadline.0);
    }
    let drained = drain(&mut queue, u64::MAX);
    assert_eq!(drained.len(), far.len());
    for ((tick, value), deadline) in drained.into_iter().zip(deadlines) {
        let late = queue.precision(deadline.0 - 1);
        assert!(value == deadline.0 && tick >= value && tick - value <= late, "{value} at {tick}");
    }
    assert_eq!(queue.now(), Tick::MAX);

    // Check that cancelled timers leave nothing behind that would make the scheme visit every tick.
    let mut queue = at(Tick(0));
    let deadline = ahead(&queue, 5000);
    let key = schedule(&mut queue, deadline, 0);
    assert_eq!(queue.cancel(key), Some(0));
    assert_eq!(drain(&mut queue, u64::MAX), []);
}

pub(super) fn stepping_over_wraps_tick_by_tick<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    for bits in [3, 6, 8, 9, 16, 24, 40, 63].into_iter().step_by(size(1, 7)) {
        let wrap = 1_u64 << bits;
        let start = wrap.saturating_sub(size(40, 4) as u64);
        let mut queue = at(Tick(start));
        let ahead_of = |queue: &Q| ahead(queue, 20);
        let mut waiting: Vec<(u64, u64, u64)> = Vec::new();
        for now in start + 1..start + size(120, 8) as u64 {
            let deadline = ahead_of(&queue);
            let (due, latest) = window(&queue, deadline).expect("in the future");
            waiting.push((due, latest, now));
            schedule(&mut queue, deadline, now);
            for (tick, value) in drain(&mut queue, now) {
                let position = waiting.iter().position(|&(.., number)| number == value).expect("pending");
                let (due, latest, _) = waiting.swap_remove(position);
                assert!(tick == now && (due..=latest).contains(&tick), "{due}..={latest} at {tick}");
            }
            assert!(waiting.iter().all(|&(_, latest, _)| latest > now), "a timer was skipped at {now}");
            for turn in [8, 256, wrap] {
                if let Ok(key) = queue.schedule(Tick(now.saturating_add(turn)), 0) {
                    queue.check();
                    assert_eq!(TimerQueue::cancel(&mut queue, key), Some(0));
                }
            }
        }
    }
}
