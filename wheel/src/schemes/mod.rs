//! The other timer schemes of the literature, behind the same trait as [`TimingWheel`](crate::TimingWheel):
//! for comparison, for study, and for workloads that suit one of them better.
//!
//! G. Varghese and A. Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP 1987; IEEE/ACM Transactions on
//! Networking 5(6), 1997) number them from 1 to 7. All of them are implemented here, with their predecessors
//! and successors. The documentation of each module shows a picture, the source, costs, memory and limits, in
//! a uniform format.
//!
//! | scheme | type | source | START | STOP | PER_TICK | bytes per timer | horizon | late by |
//! |---|---|---|---|---|---|---|---|---|
//! | [1, unordered list](unordered_list) | [`UnorderedList`] | V&L III-A | 1 | 1 | n | 24 | none | 0 |
//! | [2, ordered list](ordered_list) | [`OrderedList`] | V&L III-B | n | 1 | 1 | 24 | none | 0 |
//! | [3, heap](binary_heap) | [`BinaryHeap`] | V&L IV-A | log n / 1 | log n | 1 | 32 | none | 0 |
//! | [3, balanced tree](balanced_tree) | [`BalancedTree`] | V&L IV-A | log n | log n | log n | 34 - 56 | none | 0 |
//! | [logic simulation](logic_simulation) | [`LogicSimulationWheel`] | V&L IV-B, Ulrich 1965 | 1 | 1 | n / (1 + far / slots) | 24 | none | 0 |
//! | [4, wheel](simple) | [`SimpleWheel`] | V&L V | 1 | 1 | 1 | 24 | revolution | width - 1 |
//! | [5, hashed, sorted](hashed_sorted) | [`HashedSortedWheel`] | V&L VI-A.1 | n / 1 | 1 | 1 | 24 | none | 0 |
//! | [6, hashed, unsorted](hashed_unsorted) | [`HashedUnsortedWheel`] | V&L VI-A.2 | 1 | 1 | n / (1 + n / slots) | 24 | none | 0 |
//! | [7, hierarchical](hierarchical) | [`HierarchicalWheel`] | V&L VI-B | 1 | 1 | n / 1 | 24 | none | 0 |
//! | [7, no migration](non_cascading) | [`NonCascadingWheel`] | V&L VI-B, Nichols; Linux 4.8 | 1 | 1 | 1 | 24 | none | 1/7 |
//! | [7, one migration](one_migration) | [`OneMigrationWheel`] | V&L VI-B | 1 | 1 | n / 1 | 24 | none | 1/255 |
//! | [calendar queue](calendar) | [`CalendarQueue`] | Brown 1988 | n / 1 | n / 1 | n / 1 | 26 - 32 | none | 0 |
//! | [lawn, with t TTLs](lawn) | [`Lawn`] | Lev-Libfeld 2019 | log t / 1 | log t / 1 | t / 1 | 24 | none | 0 |
//!
//! START is [`schedule`](crate::TimerQueue::schedule), STOP is [`cancel`](crate::TimerQueue::cancel), and
//! PER_TICK is one tick of [`expire_next`](crate::TimerQueue::expire_next) without the expired timers. Costs
//! are orders of growth, as worst case / mean where they differ; `slots` is the number of slots of a wheel,
//! and `far` the number of timers beyond the current cycle. Bytes exclude the value, which is stored in an
//! `Option<T>`, and the slots, whose size does not depend on the number of timers. The lateness is given in
//! ticks, or as a fraction of the number of ticks that a timer was scheduled ahead.
//!
//! # Common properties
//!
//! A timer is a node in an array. Its key consists of its index and its generation. Stale keys find no timer
//! in any scheme, and a node that has run out of generations (2^31) is not reused. Lists are doubly linked
//! through the nodes, so that STOP needs no search. A scheme keeps the memory of its largest number of
//! timers, and panics if there are more than `u32::MAX`. Its arrays double when they are full. For a million
//! timers with values of 8 bytes, and not counting the values, lists and wheels request 34 bytes per timer
//! from the allocator, the heap 42, and the tree 55 (`cargo bench -p encke-wheel-bench --bench memory`).
//!
//! A timer scheduled for the current tick or earlier is due at the next tick. Only for such late timers is
//! the requested deadline stored separately, in a tree. At [`Tick::MAX`](crate::Tick::MAX) there is no next
//! tick: a timer scheduled at that tick stays until it is cancelled.
//!
//! [`WorkBudget`](crate::WorkBudget) pays for every timer that expires, moves, or is examined without being
//! due. All schemes can stop at any point, even in the middle of a slot or a pass, and can be changed while
//! they are stopped.

mod arena;
pub mod balanced_tree;
pub mod binary_heap;
pub mod calendar;
#[cfg(test)]
mod check;
pub mod hashed_sorted;
pub mod hashed_unsorted;
pub mod hierarchical;
mod hierarchy;
pub mod lawn;
mod list;
pub mod logic_simulation;
pub mod non_cascading;
pub mod one_migration;
pub mod ordered_list;
mod reusable;
mod revolution;
pub mod simple;
mod slots;
#[cfg(test)]
mod tests;
mod timers;
pub mod unordered_list;

pub use balanced_tree::BalancedTree;
pub use binary_heap::BinaryHeap;
pub use calendar::CalendarQueue;
pub use hashed_sorted::HashedSortedWheel;
pub use hashed_unsorted::HashedUnsortedWheel;
pub use hierarchical::HierarchicalWheel;
pub use lawn::Lawn;
pub use logic_simulation::LogicSimulationWheel;
pub use non_cascading::NonCascadingWheel;
pub use one_migration::OneMigrationWheel;
pub use ordered_list::OrderedList;
pub use reusable::Reusable;
pub use simple::SimpleWheel;
pub use unordered_list::UnorderedList;
