//! When timers come out, and what their keys find.

use alloc::vec::Vec;

use super::seed::with_seeds;
use super::{Queue, ahead, drain, schedule, size, window};
use crate::{Expire, Tick, Work};

pub(super) fn nothing_comes_before_its_tick_and_everything_at_it<Q: Queue>(at: fn(Tick) -> Q) {
    for distance in [1, 2, 7, 8, 9, 100, 255, 256, 257, 1000, 70_000, 1 << 40].into_iter().step_by(size(1, 3))
    {
        let mut queue = at(Tick(1000));
        let deadline = ahead(&queue, distance);
        let (due, latest) = window(&queue, deadline).expect("it is ahead");
        schedule(&mut queue, deadline, 7);
        assert_eq!(drain(&mut queue, due - 1), [], "{distance} ahead");
        let came = drain(&mut queue, latest);
        assert_eq!(came.len(), 1, "{distance} ahead");
        assert!((due..=latest).contains(&came[0].0) && came[0].1 == 7, "{came:?}, {distance} ahead");
        assert!(queue.is_empty());
    }
}

pub(super) fn what_is_not_ahead_is_due_at_the_next_tick<Q: Queue>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(1000));
    let keys = [0, 999, 1000].map(|deadline| schedule(&mut queue, Tick(deadline), deadline));
    assert_eq!(queue.deadline(keys[0]), Some(Tick(0)), "as it was set");
    let (due, latest) = window(&queue, Tick(1000)).expect("there is a next tick");
    assert_eq!(due, 1001);
    assert_eq!(drain(&mut queue, 1000), []);
    let mut came = Vec::new();
    while let Expire::Due(expired) = queue.expire_next(Tick(latest), &mut Work::unlimited()) {
        assert_eq!(expired.deadline.0, expired.value);
        came.push(expired.value);
    }
    came.sort_unstable();
    assert_eq!(came, [0, 999, 1000]);
}

pub(super) fn order_holds_after_a_long_gap<Q: Queue>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(3));
    let mut deadlines =
        [1 << 40, 70_000, 4, 65_536, 1 << 24, 300, 256, 65_535, (1 << 24) + 1, 1 << 33, 5, 9, 17];
    if let Some(horizon) = queue.horizon() {
        deadlines = deadlines.map(|deadline| 4 + deadline % horizon);
    }
    for deadline in deadlines {
        schedule(&mut queue, Tick(deadline), deadline);
    }
    let came = drain(&mut queue, 1 << 50);
    deadlines.sort_unstable();
    assert!(came.iter().zip(deadlines).all(|(came, deadline)| came.1 == deadline), "{came:?}");
    assert_eq!(came.len(), deadlines.len());
}

pub(super) fn time_does_not_go_backwards<Q: Queue>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(500));
    let deadline = ahead(&queue, 10);
    schedule(&mut queue, deadline, 1);
    schedule(&mut queue, deadline, 2);
    assert_eq!(drain(&mut queue, 100), []);
    assert_eq!(queue.now(), Tick(500));
    assert!(matches!(queue.expire_next(Tick(700), &mut Work::new(3)), Expire::Due(_)));
    // The rest of the tick remains due, whatever the clock says now.
    let came = queue.now().0;
    let rest = drain(&mut queue, 0);
    assert_eq!((rest.len(), rest[0].0), (1, came));
    assert_eq!(queue.now().0, came);
}

pub(super) fn rescheduling_moves_a_timer_both_ways<Q: Queue>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(0));
    let (near, far) = (ahead(&queue, 5), ahead(&queue, 70_000));
    let later = schedule(&mut queue, near, 1);
    let sooner = schedule(&mut queue, far, 2);
    assert_eq!(queue.reschedule(later, far), Ok(true));
    assert_eq!(queue.reschedule(sooner, near), Ok(true));
    assert_eq!((queue.deadline(later), queue.deadline(sooner)), (Some(far), Some(near)));
    let (_, near) = window(&queue, near).expect("it is ahead");
    let (_, far) = window(&queue, far).expect("it is ahead");
    let came = drain(&mut queue, far);
    assert!(came[0].1 == 2 && came[0].0 <= near || near == far, "{came:?}");
    assert_eq!(came.len(), 2);
}

pub(super) fn a_stale_key_finds_nothing<Q: Queue>(at: fn(Tick) -> Q) {
    let mut queue = at(Tick(0));
    let mut stale = Vec::new();
    for round in 0..size(100, 4) as u64 {
        let deadline = ahead(&queue, 3);
        let cancelled = schedule(&mut queue, deadline, round);
        assert_eq!(queue.cancel(cancelled), Some(round));
        let expired = schedule(&mut queue, deadline, round);
        let (_, latest) = window(&queue, deadline).expect("it is ahead");
        assert_eq!(drain(&mut queue, latest).len(), 1);
        stale.extend([cancelled, expired]);
        // In the same memory, most likely.
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
    assert!(stale.iter().all(|&key| small.cancel(key).is_none()), "keys of a queue that had more");
}

/// A range with room for the scheme's precision is met, by what the scheme chose in it.
pub(super) fn a_range_is_met<Q: Queue>(at: fn(Tick) -> Q) {
    for start in [1, 5, 63, 100, 200, 1000, 5000, 70_000].into_iter().step_by(size(1, 3)) {
        let mut queue = at(Tick(17));
        let start = ahead(&queue, start);
        let room = 2 * queue.precision(start.0 - 17);
        let end = ahead(&queue, start.0 - 17 + room + 10);
        let key = queue.schedule_within(start..=end, 1).expect("within the horizon");
        let chosen = queue.deadline(key).expect("it is scheduled");
        assert!((start..=end).contains(&chosen));
        assert_eq!(queue.reschedule_within(key, Tick(0)..=chosen), Ok(true));
        assert_eq!(queue.deadline(key), Some(chosen), "that was all right already");
        assert_eq!(drain(&mut queue, start.0 - 1), []);
        let (_, latest) = window(&queue, chosen).expect("it is ahead");
        let latest = if end.0 - start.0 > room { end.0 } else { latest };
        let came = drain(&mut queue, latest);
        assert_eq!(came.len(), 1, "{chosen} for {start}..={end}");
    }
}

pub(super) fn a_hundred_thousand_timers_on_one_tick<Q: Queue>(at: fn(Tick) -> Q) {
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
        let (due, latest) = window(&queue, deadline).expect("it is ahead");
        assert_eq!(drain(&mut queue, due - 1), []);
        let came = drain(&mut queue, latest);
        let expected = (0..count).filter(|value| value % 3 != 0);
        assert!(came.iter().map(|&(_, value)| value).eq(expected));
        assert!(came.iter().all(|&(tick, _)| tick == came[0].0), "all on one tick");
    }
}

/// Woken only when the queue wants to be, one still finds every timer when it should come.
pub(super) fn wakeups_alone_find_every_timer<Q: Queue>(at: fn(Tick) -> Q) {
    with_seeds(|random| {
        let start = Tick(random.ticks(60));
        let mut queue = at(start);
        assert_eq!(queue.next_wakeup(Tick::MAX), None);
        let mut last = 0;
        for _ in 0..size(200, 6) {
            let deadline = ahead(&queue, random.ticks(10).max(1));
            last = last.max(window(&queue, deadline).expect("it is ahead").1);
            schedule(&mut queue, deadline, deadline.0);
        }
        while let Some(wakeup) = queue.next_wakeup(Tick::MAX) {
            assert!(wakeup > queue.now() && wakeup.0 <= last);
            loop {
                match queue.expire_next(wakeup, &mut Work::unlimited()) {
                    Expire::Due(expired) => {
                        let precision = queue.precision(expired.deadline.saturating_since(start));
                        assert_eq!(queue.now(), wakeup, "it wants to be woken for whatever comes out");
                        assert!(expired.deadline <= wakeup);
                        assert!(wakeup.0 - expired.deadline.0 <= precision);
                    }
                    Expire::UpToDate => break,
                    Expire::OutOfWork => unreachable!("the budget is unlimited"),
                }
            }
            queue.check();
        }
        assert!(queue.is_empty());
    });
}
