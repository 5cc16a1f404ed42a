//! Tests of reusable timers, for every scheme. Properties shared with one-shot timers are tested in
//! [`conformance`](super::conformance).

use core::num::NonZeroU64;

use crate::schemes::*;
use crate::{Owners, Tick};

mod guarantees;
mod model;

/// Defines every test for every scheme. Each test is a function of a constructor that takes the current tick.
macro_rules! reusable {
    ($($scheme:ident: $new:expr,)*) => {$(
        mod $scheme {
            use super::*;

            reusable! { $new =>
                model::matches_a_list
                guarantees::a_timer_stays_when_it_expires
                guarantees::only_armed_timers_expire
                guarantees::arming_after_disarming_uses_the_new_deadline
                guarantees::timers_of_a_tick_can_be_changed_while_it_drains
                guarantees::arming_within_a_range_keeps_a_deadline_inside_it
                guarantees::a_deadline_beyond_the_horizon_changes_nothing
                guarantees::a_key_is_stale_once_its_timer_is_unregistered
                guarantees::timers_rearmed_on_expiry_expire_once_per_tick
                guarantees::at_the_end_of_time_all_can_be_disarmed
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

reusable! {
    owners: Owners::new,
}

/// Schemes without unsafe code: see [`conformance`](crate::tests::conformance).
mod safe {
    use super::*;

    const WIDTH: NonZeroU64 = NonZeroU64::new(50).expect("fifty is not zero");

    reusable! {
        timing_wheel: |now| Reusable::new(crate::TimingWheel::new(now)),
        unordered_list: |now| Reusable::new(UnorderedList::new(now)),
        ordered_list: |now| Reusable::new(OrderedList::new(now)),
        binary_heap: |now| Reusable::new(BinaryHeap::new(now)),
        balanced_tree: |now| Reusable::new(BalancedTree::new(now)),
        logic_simulation_wheel: |now| Reusable::new(LogicSimulationWheel::new(now, 8)),
        simple_wheel: |now| Reusable::new(SimpleWheel::new(now, 7)),
        simple_wheel_of_50_ticks: |now| Reusable::new(SimpleWheel::with_width(now, 7, WIDTH)),
        hashed_sorted_wheel: |now| Reusable::new(HashedSortedWheel::new(now, 8)),
        hashed_unsorted_wheel: |now| Reusable::new(HashedUnsortedWheel::new(now, 8)),
        hierarchical_wheel: |now| Reusable::new(HierarchicalWheel::new(now)),
        coarse_wheel: |now| Reusable::new(NonCascadingWheel::new(now)),
        one_migration_wheel: |now| Reusable::new(OneMigrationWheel::new(now)),
        calendar_queue: |now| Reusable::new(CalendarQueue::new(now)),
        lawn: |now| Reusable::new(Lawn::new(now)),
    }
}
