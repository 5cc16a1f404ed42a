//! Calls of the Linux kernel, of the C library and of the allocator that no well-kept crate wraps safely: one small function each.

#[cfg(feature = "jemalloc")]
mod allocator;
mod environment;
mod turn;
mod unacknowledged;

#[cfg(feature = "jemalloc")]
pub use allocator::{ALLOCATOR, Allocator, give_back_memory};
pub use environment::remove_variables;
pub use turn::wait_for_turn;
pub use unacknowledged::{Unacknowledged, unacknowledged};
