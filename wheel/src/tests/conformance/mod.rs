//! What every scheme promises, tested with every scheme, as timers for once and as timers that stay.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use super::{seed, size};
use crate::schemes::{
    BalancedTree, BinaryHeap, CalendarQueue, HashedSortedWheel, HashedUnsortedWheel, HierarchicalWheel, Lawn,
    LogicSimulationWheel, NonCascadingWheel, OneMigrationWheel, OrderedList, SimpleWheel, Standing,
    UnorderedList,
};
use crate::{Expire, LEVELS, Owners, Tick, TimerKey, TimerQueue, TimingWheel, Work};

mod ends;
mod model;
mod once;
mod promises;
mod reach;
mod stopping;

use once::Once;

/// A scheme under test.
trait Queue: TimerQueue<u64> + Checked {}

impl<Q: TimerQueue<u64> + Checked> Queue for Q {}

/// What is looked at inside.
trait Checked {
    /// How many units of work a timer takes at most, from scheduling to expiry, if that is bounded.
    const UNITS: Option<u64>;

    /// Panics unless all its invariants hold.
    fn check(&self);
}

macro_rules! queue {
    ($($name:ident: $units:expr,)*) => {$(
        impl<T> Checked for $name<T> {
            const UNITS: Option<u64> = $units;

            fn check(&self) {
                // Miri looks for what the checker cannot see, and would take hours for the checker.
                if !cfg!(miri) {
                    self.check_invariants();
                }
            }
        }
    )*};
}

queue! {
    TimingWheel: Some(LEVELS as u64),
    UnorderedList: None,
    OrderedList: Some(1),
    BinaryHeap: Some(1),
    BalancedTree: Some(1),
    LogicSimulationWheel: None,
    SimpleWheel: Some(1),
    HashedSortedWheel: None,
    HashedUnsortedWheel: None,
    HierarchicalWheel: Some(8),
    NonCascadingWheel: Some(1),
    OneMigrationWheel: Some(2),
    CalendarQueue: None,
    Lawn: None,
}

/// Every test with every scheme: each is a function of how to make an empty queue that stands at some tick.
macro_rules! conform {
    ($($(#[$attribute:meta])* $scheme:ident: $new:expr,)*) => {$(
        $(#[$attribute])*
        mod $scheme {
            use super::*;

            conform! { $new =>
                model::from_the_beginning_of_time
                model::with_deadlines_of_every_magnitude
                model::just_before_each_level_wraps
                model::up_to_the_end_of_time
                promises::nothing_comes_before_its_tick_and_everything_at_it
                promises::what_is_not_ahead_is_due_at_the_next_tick
                promises::order_holds_after_a_long_gap
                promises::time_does_not_go_backwards
                promises::rescheduling_moves_a_timer_both_ways
                promises::a_stale_key_finds_nothing
                promises::a_range_is_met
                promises::a_hundred_thousand_timers_on_one_tick
                promises::wakeups_alone_find_every_timer
                stopping::without_work_nothing_comes_out
                stopping::one_unit_at_a_time_yields_the_same_as_all_at_once
                stopping::the_queue_may_change_wherever_it_stops
                stopping::a_drain_ends_though_every_expiry_schedules_another
                stopping::what_is_scheduled_while_draining_takes_its_turn
                ends::the_last_tick_comes_like_any_other
                ends::after_the_last_tick_nothing_expires_but_all_can_be_cancelled
                ends::a_drain_of_the_last_tick_ends
                ends::all_of_time_ends
                ends::stepping_over_wraps_tick_by_tick
                reach::what_is_beyond_comes_back_untouched
                reach::a_timer_stays_where_it_was_if_it_cannot_be_moved
                reach::a_range_that_is_partly_within_reach_is_met
            }
        }
    )*};
    ($new:expr => $($file:ident::$test:ident)*) => {$(
        #[test]
        fn $test() {
            let new: fn(Tick) -> _ = $new;
            $file::$test(new);
        }
    )*};
}

const WIDTH: NonZeroU64 = NonZeroU64::new(50).expect("fifty is not zero");

conform! {
    timing_wheel: TimingWheel::new,
    owners: |now| Once(Owners::new(now)),
}

/// Schemes without unsafe code. What Miri looks for, only the compiler could put there: the short run leaves them out by this name.
mod safe {
    use super::*;

    // Few slots, so that every test goes around more than once; and as many as are usual, but for Miri.
    conform! {
        unordered_list: UnorderedList::new,
        ordered_list: OrderedList::new,
        binary_heap: BinaryHeap::new,
        balanced_tree: BalancedTree::new,
        logic_simulation_wheel_of_8: |now| LogicSimulationWheel::new(now, 8),
        #[cfg(not(miri))]
        logic_simulation_wheel_of_256: |now| LogicSimulationWheel::new(now, 256),
        simple_wheel_of_7: |now| SimpleWheel::new(now, 7),
        #[cfg(not(miri))]
        simple_wheel_of_1: |now| SimpleWheel::new(now, 1),
        #[cfg(not(miri))]
        simple_wheel_of_4096: |now| SimpleWheel::new(now, 4096),
        simple_wheel_of_7_times_50: |now| SimpleWheel::with_width(now, 7, WIDTH),
        hashed_sorted_wheel_of_8: |now| HashedSortedWheel::new(now, 8),
        #[cfg(not(miri))]
        hashed_sorted_wheel_of_256: |now| HashedSortedWheel::new(now, 256),
        #[cfg(not(miri))]
        hashed_unsorted_wheel_of_2: |now| HashedUnsortedWheel::new(now, 2),
        hashed_unsorted_wheel_of_8: |now| HashedUnsortedWheel::new(now, 8),
        #[cfg(not(miri))]
        hashed_unsorted_wheel_of_256: |now| HashedUnsortedWheel::new(now, 256),
        hierarchical_wheel: HierarchicalWheel::new,
        non_cascading_wheel: NonCascadingWheel::new,
        one_migration_wheel: OneMigrationWheel::new,
        calendar_queue: CalendarQueue::new,
        lawn: Lawn::new,
    }

    /// Timers that stay.
    mod standing {
        use super::*;

        conform! {
            timing_wheel: |now| Once(Standing::new(TimingWheel::new(now))),
            unordered_list: |now| Once(Standing::new(UnorderedList::new(now))),
            ordered_list: |now| Once(Standing::new(OrderedList::new(now))),
            binary_heap: |now| Once(Standing::new(BinaryHeap::new(now))),
            balanced_tree: |now| Once(Standing::new(BalancedTree::new(now))),
            logic_simulation_wheel: |now| Once(Standing::new(LogicSimulationWheel::new(now, 8))),
            simple_wheel: |now| Once(Standing::new(SimpleWheel::new(now, 7))),
            simple_wheel_of_7_times_50: |now| Once(Standing::new(SimpleWheel::with_width(now, 7, WIDTH))),
            hashed_sorted_wheel: |now| Once(Standing::new(HashedSortedWheel::new(now, 8))),
            hashed_unsorted_wheel: |now| Once(Standing::new(HashedUnsortedWheel::new(now, 8))),
            hierarchical_wheel: |now| Once(Standing::new(HierarchicalWheel::new(now))),
            non_cascading_wheel: |now| Once(Standing::new(NonCascadingWheel::new(now))),
            one_migration_wheel: |now| Once(Standing::new(OneMigrationWheel::new(now))),
            calendar_queue: |now| Once(Standing::new(CalendarQueue::new(now))),
            lawn: |now| Once(Standing::new(Lawn::new(now))),
        }
    }
}

/// When a timer that is scheduled now comes out at the earliest and at the latest; `None` if it never does.
fn window(queue: &impl Queue, deadline: Tick) -> Option<(u64, u64)> {
    let now = queue.now();
    let due = deadline.0.max(now.0.checked_add(1)?);
    Some((due, due.saturating_add(queue.precision(deadline.saturating_since(now)))))
}

/// `ahead` ticks from now, or as far as the scheme reaches.
fn ahead(queue: &impl Queue, ahead: u64) -> Tick {
    queue.now().saturating_add(queue.horizon().map_or(ahead, |horizon| horizon.min(ahead)))
}

fn schedule(queue: &mut impl Queue, deadline: Tick, value: u64) -> TimerKey {
    queue.schedule(deadline, value).expect("within the horizon")
}

/// Drives the queue to `now` and returns what comes out, sorted within each tick, with the tick at which it came.
fn drain(queue: &mut impl Queue, now: u64) -> Vec<(u64, u64)> {
    let mut due = Vec::new();
    loop {
        match queue.expire_next(Tick(now), &mut Work::unlimited()) {
            Expire::Due(expired) => due.push((queue.now().0, expired.value)),
            Expire::UpToDate => break,
            Expire::OutOfWork => unreachable!("the budget is unlimited"),
        }
    }
    queue.check();
    assert!(due.is_sorted_by_key(|&(tick, _)| tick), "one tick after the other");
    due.sort_unstable();
    due
}
