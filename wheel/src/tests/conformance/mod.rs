//! Tests of the guarantees of all schemes, run for every scheme with one-shot and with reusable timers.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use super::{seed, size};
use crate::schemes::{
    BalancedTree, BinaryHeap, CalendarQueue, HashedSortedWheel, HashedUnsortedWheel, HierarchicalWheel, Lawn,
    LogicSimulationWheel, NonCascadingWheel, OneMigrationWheel, OrderedList, Reusable, SimpleWheel,
    UnorderedList,
};
use crate::{Expiry, LEVELS, Owners, Tick, TimerKey, TimerQueue, TimingWheel, WorkBudget};

mod ends;
mod guarantees;
mod model;
mod one_shot;
mod reach;
mod stopping;

use one_shot::OneShot;

trait QueueUnderTest: TimerQueue<u64> + CheckedQueue {}

impl<Q: TimerQueue<u64> + CheckedQueue> QueueUnderTest for Q {}

trait CheckedQueue {
    /// Maximum number of units of work that a timer takes from scheduling to expiry, if bounded.
    const MAX_UNITS_PER_TIMER: Option<u64>;

    fn check(&self);
}

macro_rules! queue {
    ($($name:ident: $units:expr,)*) => {$(
        impl<T> CheckedQueue for $name<T> {
            const MAX_UNITS_PER_TIMER: Option<u64> = $units;

            fn check(&self) {
                // Skip the invariant checks under Miri: they would take hours, and Miri detects errors that
                // they cannot see.
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

/// Defines every test for every scheme. Each test is a function of a constructor that takes the current tick.
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
                guarantees::timers_expire_on_time
                guarantees::past_deadlines_are_due_at_the_next_tick
                guarantees::order_holds_after_a_long_gap
                guarantees::time_does_not_go_backwards
                guarantees::rescheduling_moves_a_timer_both_ways
                guarantees::a_stale_key_finds_nothing
                guarantees::timers_expire_within_their_range
                guarantees::a_hundred_thousand_timers_on_one_tick
                guarantees::driving_only_at_wakeups_expires_every_timer
                stopping::nothing_expires_without_budget
                stopping::one_unit_at_a_time_yields_the_same_as_all_at_once
                stopping::the_queue_may_change_wherever_it_stops
                stopping::a_drain_terminates_even_if_every_expiry_schedules_another
                stopping::timers_scheduled_while_draining_expire_in_order
                ends::timers_expire_on_the_last_tick
                ends::after_the_last_tick_nothing_expires_but_all_can_be_cancelled
                ends::draining_the_last_tick_terminates
                ends::driving_through_all_of_time_terminates
                ends::stepping_over_wraps_tick_by_tick
                reach::timers_beyond_the_horizon_are_refused
                reach::a_refused_reschedule_keeps_the_deadline
                reach::a_range_partly_within_the_horizon_is_accepted
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
    owners: |now| OneShot(Owners::new(now)),
}

/// Schemes without unsafe code. In these, only the compiler could cause the errors that Miri detects, so the
/// short run excludes them by this module name.
mod safe {
    use super::*;

    // Test each wheel with few slots, so that every test makes more than one revolution, and with the usual
    // number of slots, except under Miri.
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

    mod reusable {
        use super::*;

        conform! {
            timing_wheel: |now| OneShot(Reusable::new(TimingWheel::new(now))),
            unordered_list: |now| OneShot(Reusable::new(UnorderedList::new(now))),
            ordered_list: |now| OneShot(Reusable::new(OrderedList::new(now))),
            binary_heap: |now| OneShot(Reusable::new(BinaryHeap::new(now))),
            balanced_tree: |now| OneShot(Reusable::new(BalancedTree::new(now))),
            logic_simulation_wheel: |now| OneShot(Reusable::new(LogicSimulationWheel::new(now, 8))),
            simple_wheel: |now| OneShot(Reusable::new(SimpleWheel::new(now, 7))),
            simple_wheel_of_7_times_50: |now| OneShot(Reusable::new(SimpleWheel::with_width(now, 7, WIDTH))),
            hashed_sorted_wheel: |now| OneShot(Reusable::new(HashedSortedWheel::new(now, 8))),
            hashed_unsorted_wheel: |now| OneShot(Reusable::new(HashedUnsortedWheel::new(now, 8))),
            hierarchical_wheel: |now| OneShot(Reusable::new(HierarchicalWheel::new(now))),
            non_cascading_wheel: |now| OneShot(Reusable::new(NonCascadingWheel::new(now))),
            one_migration_wheel: |now| OneShot(Reusable::new(OneMigrationWheel::new(now))),
            calendar_queue: |now| OneShot(Reusable::new(CalendarQueue::new(now))),
            lawn: |now| OneShot(Reusable::new(Lawn::new(now))),
        }
    }
}

/// Returns the earliest and latest tick at which a timer scheduled now may expire, or `None` if the timer
/// never expires.
fn window(queue: &impl QueueUnderTest, deadline: Tick) -> Option<(u64, u64)> {
    let now = queue.now();
    let due = deadline.0.max(now.0.checked_add(1)?);
    Some((due, due.saturating_add(queue.precision(deadline.saturating_since(now)))))
}

/// Returns the tick `ahead` ticks from now, or the last tick within the horizon.
fn ahead(queue: &impl QueueUnderTest, ahead: u64) -> Tick {
    queue.now().saturating_add(queue.horizon().map_or(ahead, |horizon| horizon.min(ahead)))
}

fn schedule(queue: &mut impl QueueUnderTest, deadline: Tick, value: u64) -> TimerKey {
    queue.schedule(deadline, value).expect("within the horizon")
}

/// Drives the queue to `now` and returns the expired values with the ticks at which they expired, sorted
/// within each tick.
fn drain(queue: &mut impl QueueUnderTest, now: u64) -> Vec<(u64, u64)> {
    let mut due = Vec::new();
    loop {
        match queue.expire_next(Tick(now), &mut WorkBudget::unlimited()) {
            Expiry::Due(expired) => due.push((queue.now().0, expired.value)),
            Expiry::UpToDate => break,
            Expiry::OutOfBudget => unreachable!("the budget is unlimited"),
        }
    }
    queue.check();
    assert!(due.is_sorted_by_key(|&(tick, _)| tick), "out of order");
    due.sort_unstable();
    due
}
