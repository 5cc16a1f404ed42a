//! Tests of individual schemes, and tests that inspect their internals.

use alloc::vec;
use alloc::vec::Vec;
use core::num::{NonZeroU32, NonZeroU64};

use super::arena::RETIRED;
use super::*;
use crate::{BeyondHorizon, Expiry, Tick, TimerQueue, WorkBudget};

/// Drives the queue to `now` and returns the expired values with the ticks at which they expired.
fn drain<T>(queue: &mut impl TimerQueue<T>, now: u64) -> Vec<(u64, T)> {
    let mut due = Vec::new();
    while let Expiry::Due(expired) = queue.expire_next(Tick(now), &mut WorkBudget::unlimited()) {
        due.push((queue.now().0, expired.value));
    }
    due
}

/// The wheel in D. Choi's article on NHN's server, with 7 slots of 50 ms. A tick is a millisecond.
#[test]
fn seven_slots_of_50_ms_refuse_351_ms() {
    let mut wheel = SimpleWheel::with_width(Tick(0), 7, NonZeroU64::new(50).expect("not zero"));
    assert_eq!(wheel.horizon(), Some(350));
    let refused = Err(BeyondHorizon { value: "351 ms", last: Tick(350) });
    assert_eq!(wheel.schedule(Tick(351), "351 ms"), refused);
    assert!(wheel.schedule(Tick(350), "350 ms").is_ok());
    assert!(wheel.schedule(Tick(200), "200 ms").is_ok());
    assert!(wheel.schedule(Tick(151), "151 ms").is_ok());
    assert_eq!(drain(&mut wheel, 199), []);
    let mut drained = drain(&mut wheel, 200);
    drained.sort_unstable();
    assert_eq!(drained, [(200, "151 ms"), (200, "200 ms")], "late by up to 49 ms, never early");
    assert_eq!(wheel.horizon(), Some(350), "at the beginning of a slot");
    assert_eq!(drain(&mut wheel, 349), []);
    assert_eq!(wheel.horizon(), Some(301), "49 ms into a slot");
    assert_eq!(drain(&mut wheel, 350), [(350, "350 ms")]);
}

#[test]
fn memory_whose_generations_have_run_out_is_retired() {
    let mut list = OrderedList::new(Tick(0));
    let first = list.schedule(Tick(1), 1).expect("no horizon");
    assert_eq!(list.cancel(first), Some(1));
    // Give the free node an even generation with which it can be used once more.
    list.0.arena.nodes[0].generation = NonZeroU32::new(u32::MAX - 1).expect("not zero");
    let last = list.schedule(Tick(1), 2).expect("no horizon");
    assert_eq!((last.index, last.generation), (0, NonZeroU32::MAX));
    assert_eq!(list.cancel(last), Some(2));
    list.check_invariants();
    assert_eq!(list.0.arena.nodes[0].generation, RETIRED);
    let next = list.schedule(Tick(1), 3).expect("no horizon");
    assert_eq!((next.index, list.cancel(last), list.cancel(first)), (1, None, None));
    list.check_invariants();
}

#[test]
fn memory_is_reused() {
    let mut wheel = HashedUnsortedWheel::new(Tick(0), 8);
    for now in 0..if cfg!(miri) { 20 } else { 100 } {
        for ahead in [1, 2, 9] {
            wheel.schedule(Tick(now + ahead), now).expect("no horizon");
        }
        drain(&mut wheel, now + 1);
    }
    assert!(wheel.0.arena.nodes.len() <= 13, "{}", wheel.0.arena.nodes.len());
}

#[test]
fn an_ordered_list_keeps_the_order_of_scheduling() {
    let mut list = OrderedList::new(Tick(0));
    for (deadline, value) in [(9, 'a'), (5, 'b'), (9, 'c'), (5, 'd'), (7, 'e'), (9, 'f')] {
        list.schedule(Tick(deadline), value).expect("no horizon");
    }
    let drained: Vec<_> = drain(&mut list, 9).into_iter().map(|(_, value)| value).collect();
    assert_eq!(drained, ['b', 'd', 'e', 'a', 'c', 'f']);
}

/// V&L, section VI-A, on Scheme 6: a timer of `T` ticks is examined about `T / slots` times.
#[test]
fn a_hashed_wheel_examines_a_timer_once_per_revolution() {
    let mut wheel = HashedUnsortedWheel::new(Tick(0), 8);
    wheel.schedule(Tick(83), ()).expect("no horizon");
    let mut work = WorkBudget::new(100);
    for now in 1..83 {
        assert_eq!(wheel.expire_next(Tick(now), &mut work), Expiry::UpToDate);
    }
    assert_eq!(work.remaining(), 90, "at 3, 11, ..., 75");
    assert_eq!(wheel.next_wakeup(Tick::MAX), Some(Tick(83)));
}

#[test]
fn an_unordered_list_examines_every_timer_on_every_tick() {
    let mut list = UnorderedList::new(Tick(0));
    for deadline in [50, 60, 70] {
        list.schedule(Tick(deadline), ()).expect("no horizon");
    }
    let mut work = WorkBudget::new(100);
    for now in 1..=10 {
        assert_eq!(list.next_wakeup(Tick::MAX), Some(Tick(now)));
        assert_eq!(list.expire_next(Tick(now), &mut work), Expiry::UpToDate);
    }
    assert_eq!(work.remaining(), 70);
}

#[test]
fn a_logic_simulator_searches_its_overflow_list_once_per_cycle() {
    let mut wheel = LogicSimulationWheel::new(Tick(0), 8);
    for deadline in [7, 8, 20] {
        wheel.schedule(Tick(deadline), deadline).expect("no horizon");
    }
    assert_eq!((wheel.occupancy(0), wheel.occupancy(1)), (1, 2));
    assert_eq!(drain(&mut wheel, 7), [(7, 7)]);
    assert_eq!(wheel.next_wakeup(Tick::MAX), Some(Tick(8)));
    // The budget covers one timer that expires and two that are examined.
    let mut work = WorkBudget::new(3);
    assert!(matches!(wheel.expire_next(Tick(8), &mut work), Expiry::Due(_)));
    assert_eq!((work.remaining(), wheel.next_wakeup(Tick::MAX)), (0, Some(Tick(16))));
    assert_eq!((wheel.occupancy(0), wheel.occupancy(1)), (0, 1));
}

#[test]
fn late_wheels_respect_their_precision() {
    let late = NonCascadingWheel::<()>::new(Tick(0));
    let one = OneMigrationWheel::<()>::new(Tick(0));
    assert_eq!([0, 1, 63, 64, 495, 496, 512].map(|ahead| late.precision(ahead)), [0, 0, 0, 7, 7, 63, 63]);
    assert_eq!([0, 65_279, 65_280, 1 << 24].map(|ahead| one.precision(ahead)), [0, 0, 255, 65_535]);
    for bits in (0..u64::BITS).step_by(if cfg!(miri) { 13 } else { 1 }) {
        for ahead in [1_u64 << bits, (1_u64 << bits) - 1, u64::MAX >> bits] {
            assert!(late.precision(ahead) <= ahead / 7, "{ahead}");
            assert!(one.precision(ahead) <= ahead / 255, "{ahead}");
        }
    }
}

#[test]
fn a_timer_moves_never_without_cascading_and_once_with_one_migration() {
    for (deadline, due) in [(1000, 1024), (70_000, 73_728)] {
        let mut wheel = NonCascadingWheel::new(Tick(0));
        wheel.schedule(Tick(deadline), ()).expect("no horizon");
        let mut work = WorkBudget::new(10);
        assert!(matches!(wheel.expire_next(Tick::MAX, &mut work), Expiry::Due(_)));
        assert_eq!((work.remaining(), wheel.now()), (9, Tick(due)));
    }
    for (deadline, due) in [(255, 255), (65_279, 65_279), (20_000_000, 20_054_016)] {
        let mut wheel = OneMigrationWheel::new(Tick(0));
        wheel.schedule(Tick(deadline), ()).expect("no horizon");
        let mut work = WorkBudget::new(10);
        assert!(matches!(wheel.expire_next(Tick::MAX, &mut work), Expiry::Due(_)));
        assert_eq!(wheel.now(), Tick(due));
        assert_eq!(work.remaining(), if deadline < 256 { 9 } else { 8 });
    }
}

/// Returns the ticks at which a timer scheduled at tick 1000 is touched. The timer expires at the last of
/// them.
fn stops(mut queue: impl TimerQueue<()>, deadline: u64) -> Vec<u64> {
    queue.schedule(Tick(deadline), ()).expect("no horizon");
    let mut stops = Vec::new();
    while let Some(tick) = queue.next_wakeup(Tick::MAX) {
        stops.push(tick.0);
        let mut work = WorkBudget::new(1);
        if let Expiry::Due(_) = queue.expire_next(tick, &mut work) {
            break;
        }
        assert_eq!(work.remaining(), 0, "moved");
    }
    stops
}

#[test]
fn the_documented_examples_of_the_hierarchies_are_correct() {
    const NOW: Tick = Tick(1000);
    for (deadline, exact) in
        [(1010, vec![1010]), (1300, vec![1280, 1300]), (70_000, vec![65_536, 69_888, 70_000])]
    {
        assert_eq!(stops(HierarchicalWheel::new(NOW), deadline), exact);
    }
    for (deadline, once) in [(1010, vec![1010]), (1300, vec![1280, 1300]), (70_000, vec![65_536, 70_144])] {
        assert_eq!(stops(OneMigrationWheel::new(NOW), deadline), once);
    }
    for (deadline, never_due) in [(1010, 1010), (1100, 1104), (2000, 2048)] {
        assert_eq!(stops(NonCascadingWheel::new(NOW), deadline), [never_due]);
    }
}

#[test]
fn a_calendar_grows_and_shrinks() {
    let mut calendar = CalendarQueue::new(Tick(0));
    let count = if cfg!(miri) { 60 } else { 1000 };
    let keys: Vec<_> = (1..=count)
        .map(|number| calendar.schedule(Tick(number * 100), number).expect("no horizon"))
        .collect();
    // Expect days of three times the distance of 100, rounded up to a power of two.
    assert_eq!(calendar.0.scheme.days(), (if cfg!(miri) { 32 } else { 512 }, 512));
    for &key in &keys[8..] {
        assert!(calendar.cancel(key).is_some());
    }
    assert_eq!(calendar.0.scheme.days().0, 16);
    calendar.check_invariants();
    assert_eq!(drain(&mut calendar, u64::MAX).len(), 8);
    assert!(calendar.0.scheme.days().0 < 16);
}

#[test]
fn a_lawn_has_a_queue_for_every_ttl() {
    let mut lawn = Lawn::new(Tick(0));
    for now in 0..20 {
        for ttl in [10, 10, 30] {
            lawn.schedule(Tick(now + ttl), ttl).expect("no horizon");
        }
        drain(&mut lawn, now + 1);
        assert_eq!(lawn.0.scheme.queues(), 2);
    }
    drain(&mut lawn, 30);
    assert_eq!(lawn.0.scheme.queues(), 1);
    drain(&mut lawn, 50);
    assert_eq!(lawn.0.scheme.queues(), 0);
}
