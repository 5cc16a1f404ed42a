//! The other schemes of the literature, behind the trait of [`TimingWheel`](crate::TimingWheel): to compare with, to learn
//! from, and for those whose load fits one of them better.
//!
//! G. Varghese and A. Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP 1987; IEEE/ACM Transactions on Networking 5(6),
//! 1997) number them from 1 to 7. All are here, with what they grew from and what grew from them.
//!
//! | scheme | type | source | START | STOP | PER_TICK | bytes a timer | reach | late by |
//! |---|---|---|---|---|---|---|---|---|
//! | 1, unordered list | [`UnorderedList`] | V&L III-A | 1 | 1 | n | 24 | all | 0 |
//! | 2, ordered list | [`OrderedList`] | V&L III-B | n | 1 | 1 | 24 | all | 0 |
//! | 3, heap | [`BinaryHeap`] | V&L IV-A | log n / 1 | log n | 1 | 32 | all | 0 |
//! | 3, balanced tree | [`BalancedTree`] | V&L IV-A | log n | log n | 1 | 32 - 51 | all | 0 |
//! | logic simulation | [`LogicSimulationWheel`] | V&L IV-B, Ulrich 1965 | 1 | 1 | n / (1 + far / slots) | 24 | all | 0 |
//! | 4, wheel | [`SimpleWheel`] | V&L V | 1 | 1 | 1 | 24 | a turn | width - 1 |
//! | 5, hashed, sorted | [`HashedSortedWheel`] | V&L VI-A | n / 1 | 1 | 1 | 24 | all | 0 |
//! | 6, hashed, unsorted | [`HashedUnsortedWheel`] | V&L VI-A | 1 | 1 | n / (1 + n / slots) | 24 | all | 0 |
//! | 7, hierarchical | [`HierarchicalWheel`] | V&L VI-B | 1 | 1 | n / 1 | 24 | all | 0 |
//! | 7, no migration | [`NonCascadingWheel`] | V&L VI-B, Nichols; Linux 4.8 | 1 | 1 | 1 | 24 | all | 1/7 |
//! | 7, one migration | [`OneMigrationWheel`] | V&L VI-B | 1 | 1 | n / 1 | 24 | all | 1/255 |
//! | calendar queue | [`CalendarQueue`] | Brown 1988 | n / 1 | n / 1 | n / 1 | 26 - 32 | all | 0 |
//! | lawn, of t TTLs | [`Lawn`] | Lev-Libfeld 2019 | log t / 1 | log t / 1 | t / 1 | 24 | all | 0 |
//!
//! START is [`schedule`](crate::TimerQueue::schedule), STOP [`cancel`](crate::TimerQueue::cancel), PER_TICK one tick of
//! [`expire_next`](crate::TimerQueue::expire_next) beside what it gives out: orders of growth, worst / mean where they
//! differ. Bytes are those without the value, which takes an `Option<T>`. How much comes late is in ticks, or of the ticks
//! a timer was scheduled ahead.
//!
//! # What they share
//!
//! A timer is a node in an array. Its key is its index there and its generation: stale keys find nothing, in any scheme,
//! and memory that has run out of generations (2^31) is not used again. Lists go through the nodes, doubly linked, so that
//! no STOP needs a search. A scheme keeps the memory that its largest number of timers needed, and panics when asked for
//! more than `u32::MAX`.
//!
//! What is scheduled for a tick that is not ahead is due at the next one. Those timers alone need a place for the deadline
//! that they were given: an entry in a tree. At [`Tick::MAX`](crate::Tick::MAX) there is no next tick: what is scheduled
//! then stays until it is cancelled.
//!
//! [`Work`](crate::Work) pays for every timer that comes out, moves, or is looked at without being due. All schemes can
//! stop anywhere, in the midst of a slot or of a pass, and be changed there.

mod arena;
mod balanced_tree;
mod binary_heap;
mod calendar;
#[cfg(test)]
mod check;
mod hashed_sorted;
mod hashed_unsorted;
mod hierarchical;
mod hierarchy;
mod lawn;
mod list;
mod logic_simulation;
mod non_cascading;
mod one_migration;
mod ordered_list;
mod simple;
mod slots;
#[cfg(test)]
mod tests;
mod timers;
mod turn;
mod unordered_list;

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
pub use simple::SimpleWheel;
pub use unordered_list::UnorderedList;
