//! Safe wrappers for calls of the Linux kernel, the C library and the allocator that no maintained crate
//! wraps: one small function each.

#[cfg(feature = "jemalloc")]
mod allocator;
mod environment;
mod batch_scheduling;
mod unacknowledged;

#[cfg(feature = "jemalloc")]
pub use allocator::{ALLOCATOR, Allocator, return_free_memory};
pub use environment::remove_variables;
pub use batch_scheduling::use_batch_scheduling;
pub use unacknowledged::{Unacknowledged, unacknowledged};
