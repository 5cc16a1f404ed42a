//! Tests of when timers expire and of looking up their keys.

use alloc::vec::Vec;

use super::seed::with_seeds;
use super::{QueueUnderTest, ahead, drain, schedule, size, window};
use crate::{Expiry, Tick, WorkBudget};

pub(super) fn timers_expire_on_time<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    for distance in [1, 2, 7, 8, 9, 100, 255, 256, 257, 1000, 70_000, 1 << 40].into_iter().step_by(size(1, 3))
    {
        let mut queue = at(Tick(1000));
        let deadline = ahead(&queue, distance);
        let (due, latest) = window(&queue, deadline).expect("in the future");
        schedule(&mut queue, deadline, 7);
        assert_eq!(drain(&mut queue, due - 1), [], "{distance} ahead");
        let drained = drain(&mut queue, latest);
        assert_eq!(drained.len(), 1, "{distance} ahead");
        assert!((due..=latest).contains(&drained[0].0) && drained[0].1 == 7, "{drained:?}, {distance} ahead");
        assert!(queue.is_empty());
    }
}

pub(super) fn past_deadlines_are_due_at_the_next_tick<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(1000));
    let keys = [0, 999, 1000].map(|deadline| schedule(&mut queue, Tick(deadline), deadline));
    assert_eq!(queue.deadline(keys[0]), Some(Tick(0)), "the requested deadline");
    let (due, latest) = window(&queue, Tick(1000)).expect("there is a next tick");
    assert_eq!(due, 1001);
    assert_eq!(drain(&mut queue, 1000), []);
    let mut drained = Vec::new();
    while let Expiry::Due(expired) = queue.expire_next(Tick(latest), &mut WorkBudget::unlimited()) {
        assert_eq!(expired.deadline.0, expired.value);
        drained.push(expired.value);
    }
    drained.sort_unstable();
    assert_eq!(drained, [0, 999, 1000]);
}

pub(super) fn order_holds_after_a_long_gap<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(3));
    let mut deadlines =
        [1 << 40, 70_000, 4, 65_536, 1 << 24, 300, 256, 65_535, (1 << 24) + 1, 1 << 33, 5, 9, 17];
    if let Some(horizon) = queue.horizon() {
        deadlines = deadlines.map(|deadline| 4 + deadline % horizon);
    }
    for deadline in deadlines {
        schedule(&mut queue, Tick(deadline), deadline);
    }
    let drained = drain(&mut queue, 1 << 50);
    deadlines.sort_unstable();
    assert!(drained.iter().zip(deadlines).all(|(drained, deadline)| drained.1 == deadline), "{drained:?}");
    assert_eq!(drained.len(), deadlines.len());
}

pub(super) fn time_does_not_go_backwards<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(500));
    let deadline = ahead(&queue, 10);
    schedule(&mut queue, deadline, 1);
    schedule(&mut queue, deadline, 2);
    assert_eq!(drain(&mut queue, 100), []);
    assert_eq!(queue.now(), Tick(500));
    assert!(matches!(queue.expire_next(Tick(700), &mut WorkBudget::new(3)), Expiry::Due(_)));
    // The other timer of the tick remains due even if the clock goes backwards.
    let drained = queue.now().0;
    let rest = drain(&mut queue, 0);
    assert_eq!((rest.len(), rest[0].0), (1, drained));
    assert_eq!(queue.now().0, drained);
}

pub(super) fn rescheduling_moves_a_timer_both_ways<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(0));
    let (near, far) = (ahead(&queue, 5), ahead(&queue, 70_000));
    let later = schedule(&mut queue, near, 1);
    let sooner = schedule(&mut queue, far, 2);
    assert_eq!(queue.reschedule(later, far), Ok(true));
    assert_eq!(queue.reschedule(sooner, near), Ok(true));
    assert_eq!((queue.deadline(later), queue.deadline(sooner)), (Some(far), Some(near)));
    let (_, near) = window(&queue, near).expect("in the future");
    let (_, far) = window(&queue, far).expect("in the future");
    let drained = drain(&mut queue, far);
    assert!(drained[0].1 == 2 && drained[0].0 <= near || near == far, "{drained:?}");
    assert_eq!(drained.len(), 2);
}

pub(super) fn a_stale_key_finds_nothing<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(0));
    let mut stale = Vec::new();
    for round in 0..size(100, 4) as u64 {
        let deadline = ahead(&queue, 3);
        let cancelled = schedule(&mut queue, deadline, round);
        assert_eq!(queue.cancel(cancelled), Some(round));
        let expired = schedule(&mut queue, deadline, round);
        let (_, latest) = window(&queue, deadline).expect("in the future");
        assert_eq!(drain(&mut queue, latest).len(), 1);
        stale.extend([cancelled, expired]);
        // Schedule another timer, which probably uses the same memory.
        let deadline = ahead(&queue, 4);
        let alive = schedule(&mut queue, deadline, 1000);
        for &stale in &stale {
            assert_eq!((queue.deadline(stale), queue.get(stale)), (None, None));
            assert_eq!(queue.reschedule(stale, deadline), Ok(false));
            assert_eq!(queue.reschedule_within(stale, Tick(0)..=Tick::MAX), Ok(false));
            assert_eq!(queue.cancel(stale), None);
        }
        queue.check();
        assert_eq!(queue.get(alive), Some(&1000));
        assert_eq!(queue.cancel(alive), Some(1000));
    }
    let mut small = at(Tick(0));
    assert!(stale.iter().all(|&key| small.cancel(key).is_none()), "keys of a queue with more timers");
}

/// A timer scheduled within a range expires in that range, if the range is wide enough for the scheme's
/// precision.
pub(super) fn timers_expire_within_their_range<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    for start in [1, 5, 63, 100, 200, 1000, 5000, 70_000].into_iter().step_by(size(1, 3)) {
        let mut queue = at(Tick(17));
        let start = ahead(&queue, start);
        let room = 2 * queue.precision(start.0 - 17);
        let end = ahead(&queue, start.0 - 17 + room + 10);
        let key = queue.schedule_within(start..=end, 1).expect("within the horizon");
        let chosen = queue.deadline(key).expect("scheduled");
        assert!((start..=end).contains(&chosen));
        assert_eq!(queue.reschedule_within(key, Tick(0)..=chosen), Ok(true));
        assert_eq!(queue.deadline(key), Some(chosen), "the deadline was already in the range");
        assert_eq!(drain(&mut queue, start.0 - 1), []);
        let (_, latest) = window(&queue, chosen).expect("in the future");
        let latest = if end.0 - start.0 > room { end.0 } else { latest };
        let drained = drain(&mut queue, latest);
        assert_eq!(drained.len(), 1, "{chosen} for {start}..={end}");
    }
}

pub(super) fn a_hundred_thousand_timers_on_one_tick<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    let count = size(100_000, 12) as u64;
    for distance in [300, 1 << 40] {
        let mut queue = at(Tick(0));
        if queue.horizon().is_some_and(|horizon| horizon < 300 && distance > 300) {
            continue;
        }
        let deadline = ahead(&queue, distance);
        let keys: Vec<_> = (0..count).map(|value| schedule(&mut queue, deadline, value)).collect();
        for &key in keys.iter().step_by(3) {
            assert!(queue.cancel(key).is_some());
        }
        let (due, latest) = window(&queue, deadline).expect("in the future");
        assert_eq!(drain(&mut queue, due - 1), []);
        let drained = drain(&mut queue, latest);
        let expected = (0..count).filter(|value| value % 3 != 0);
        assert!(drained.iter().map(|&(_, value)| value).eq(expected));
        assert!(drained.iter().all(|&(tick, _)| tick == drained[0].0), "all on one tick");
    }
}

pub(super) fn driving_only_at_wakeups_expires_every_timer<Q: QueueUnderTest>(at: fn(Tick) -> Q) {
    with_seeds(|random| {
        let start = Tick(random.ticks(60));
        let mut queue = at(start);
        assert_eq!(queue.next_wakeup(Tick::MAX), None);
        let mut last = 0;
        for _ in 0..size(200, 6) {
            let deadline = ahead(&queue, random.ticks(10).max(1));
            last = last.max(window(&queue, deadline).expect("in the future").1);
            schedule(&mut queue, deadline, deadline.0);
        }
        while let Some(wakeup) = queue.next_wakeup(Tick::MAX) {
            assert!(wakeup > queue.now() && wakeup.0 <= last);
            loop {
                match queue.expire_next(wakeup, &mut WorkBudget::unlimited()) {
                    Expiry::Due(expired) => {
                        let precision = queue.precision(expired.deadline.saturating_since(start));
                        assert_eq!(queue.now(), wakeup, "a timer expired without a wake-up");
                        assert!(expired.deadline <= wakeup);
                        assert!(wakeup.0 - expired.deadline.0 <= precision);
                    }
                    Expiry::UpToDate => break,
                    Expiry::OutOfBudget => unreachable!("the budget is unlimited"),
                }
            }
            queue.check();
        }
        assert!(queue.is_empty());
    });
}
