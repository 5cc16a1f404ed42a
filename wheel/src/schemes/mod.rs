//! The other schemes of the literature, behind the trait of [`TimingWheel`](crate::TimingWheel): to compare with, to learn
//! from, and for those whose load fits one of them better.
//!
//! G. Varghese and A. Lauck, *Hashed and Hierarchical Timing Wheels* (SOSP 1987; IEEE/ACM Transactions on Networking 5(6),
//! 1997) number them from 1 to 7. All are here, with what they grew from and what grew from them. Each has a module, which begins
//! with a picture, the source, costs, memory and limits, in the same form for all.
//!
//! | scheme | type | source | START | STOP | PER_TICK | bytes a timer | reach | late by |
//! |---|---|---|---|---|---|---|---|---|
//! | [1, unordered list](unordered_list) | [`UnorderedList`] | V&L III-A | 1 | 1 | n | 24 | all | 0 |
//! | [2, ordered list](ordered_list) | [`OrderedList`] | V&L III-B | n | 1 | 1 | 24 | all | 0 |
//! | [3, heap](binary_heap) | [`BinaryHeap`] | V&L IV-A | log n / 1 | log n | 1 | 32 | all | 0 |
//! | [3, balanced tree](balanced_tree) | [`BalancedTree`] | V&L IV-A | log n | log n | log n | 34 - 56 | all | 0 |
//! | [logic simulation](logic_simulation) | [`LogicSimulationWheel`] | V&L IV-B, Ulrich 1965 | 1 | 1 | n / (1 + far / slots) | 24 | all | 0 |
//! | [4, wheel](simple) | [`SimpleWheel`] | V&L V | 1 | 1 | 1 | 24 | a turn | width - 1 |
//! | [5, hashed, sorted](hashed_sorted) | [`HashedSortedWheel`] | V&L VI-A.1 | n / 1 | 1 | 1 | 24 | all | 0 |
//! | [6, hashed, unsorted](hashed_unsorted) | [`HashedUnsortedWheel`] | V&L VI-A.2 | 1 | 1 | n / (1 + n / slots) | 24 | all | 0 |
//! | [7, hierarchical](hierarchical) | [`HierarchicalWheel`] | V&L VI-B | 1 | 1 | n / 1 | 24 | all | 0 |
//! | [7, no migration](non_cascading) | [`NonCascadingWheel`] | V&L VI-B, Nichols; Linux 4.8 | 1 | 1 | 1 | 24 | all | 1/7 |
//! | [7, one migration](one_migration) | [`OneMigrationWheel`] | V&L VI-B | 1 | 1 | n / 1 | 24 | all | 1/255 |
//! | [calendar queue](calendar) | [`CalendarQueue`] | Brown 1988 | n / 1 | n / 1 | n / 1 | 26 - 32 | all | 0 |
//! | [lawn, of t TTLs](lawn) | [`Lawn`] | Lev-Libfeld 2019 | log t / 1 | log t / 1 | t / 1 | 24 | all | 0 |
//!
//! START is [`schedule`](crate::TimerQueue::schedule), STOP [`cancel`](crate::TimerQueue::cancel), PER_TICK one tick of
//! [`expire_next`](crate::TimerQueue::expire_next) beside what it gives out: orders of growth, worst / mean where they
//! differ; `slots` of a wheel, and `far` is how many timers are beyond the present cycle. Bytes are those without the value, which takes
//! an `Option<T>`, and without slots, which take the same however many timers there are. How much comes late is in ticks, or of the ticks
//! a timer was scheduled ahead.
//!
//! # What they share
//!
//! A timer is a node in an array. Its key is its index there and its generation: stale keys find nothing, in any scheme,
//! and memory that has run out of generations (2^31) is not used again. Lists go through the nodes, doubly linked, so that
//! no STOP needs a search. A scheme keeps the memory that its largest number of timers needed, and panics when asked for
//! more than `u32::MAX`. Its arrays double when they are full, and then have room for twice as many timers. For a million timers
//! with values of 8 bytes, these 8 aside, lists and wheels ask 34 bytes a timer of the allocator, the heap 42, the tree 55
//! (`cargo bench -p encke-wheel --bench memory`).
//!
//! What is scheduled for a tick that is not ahead is due at the next one. Those timers alone need a place for the deadline
//! that they were given: an entry in a tree. At [`Tick::MAX`](crate::Tick::MAX) there is no next tick: what is scheduled
//! then stays until it is cancelled.
//!
//! [`Work`](crate::Work) pays for every timer that comes out, moves, or is looked at without being due. All schemes can
//! stop anywhere, in the midst of a slot or of a pass, and be changed there.

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
pub mod simple;
mod slots;
mod standing;
#[cfg(test)]
mod tests;
mod timers;
mod turn;
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
pub use simple::SimpleWheel;
pub use standing::Standing;
pub use unordered_list::UnorderedList;
