//! Timers that stay, by every scheme. What they have in common with timers for once is tested with those:
//! [`conformance`](super::conformance).

use core::num::NonZeroU64;

use crate::schemes::*;
use crate::{Owners, Tick};

mod model;
mod promises;

/// Every test with every scheme: each is a function of how to have no timers at some tick.
macro_rules! standing {
    ($($scheme:ident: $new:expr,)*) => {$(
        mod $scheme {
            use super::*;

            standing! { $new =>
                model::it_is_as_a_list_says
                promises::a_timer_stays_when_it_expires
                promises::what_is_not_armed_does_not_expire
                promises::disarming_and_arming_again_keeps_the_last_word
                promises::timers_of_a_tick_can_be_changed_while_it_drains
                promises::a_range_that_has_the_deadline_changes_nothing
                promises::what_is_beyond_leaves_a_timer_as_it_was
                promises::a_key_is_stale_once_its_timer_is_unregistered
                promises::timers_that_arm_themselves_come_once_a_tick
                promises::at_the_end_of_time_all_can_be_disarmed
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

standing! {
    owners: Owners::new,
}

/// Without unsafe code: see [`conformance`](crate::tests::conformance).
mod safe {
    use super::*;

    const WIDTH: NonZeroU64 = NonZeroU64::new(50).expect("fifty is not zero");

    standing! {
        timing_wheel: |now| Standing::new(crate::TimingWheel::new(now)),
        unordered_list: |now| Standing::new(UnorderedList::new(now)),
        ordered_list: |now| Standing::new(OrderedList::new(now)),
        binary_heap: |now| Standing::new(BinaryHeap::new(now)),
        balanced_tree: |now| Standing::new(BalancedTree::new(now)),
        logic_simulation_wheel: |now| Standing::new(LogicSimulationWheel::new(now, 8)),
        simple_wheel: |now| Standing::new(SimpleWheel::new(now, 7)),
        simple_wheel_of_50_ticks: |now| Standing::new(SimpleWheel::with_width(now, 7, WIDTH)),
        hashed_sorted_wheel: |now| Standing::new(HashedSortedWheel::new(now, 8)),
        hashed_unsorted_wheel: |now| Standing::new(HashedUnsortedWheel::new(now, 8)),
        hierarchical_wheel: |now| Standing::new(HierarchicalWheel::new(now)),
        coarse_wheel: |now| Standing::new(NonCascadingWheel::new(now)),
        one_migration_wheel: |now| Standing::new(OneMigrationWheel::new(now)),
        calendar_queue: |now| Standing::new(CalendarQueue::new(now)),
        lawn: |now| Standing::new(Lawn::new(now)),
    }
}
