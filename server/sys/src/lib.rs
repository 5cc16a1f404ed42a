//! Safe wrappers for functions of the Linux kernel, the C library and the allocator that no maintained crate
//! wraps: one small function each.

#[cfg(feature = "jemalloc")]
mod allocator;
mod batch_scheduling;
mod environment;
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
mod name_lookup;
mod received;
mod unacknowledged;
mod unread;
mod wall_clock;

#[cfg(feature = "jemalloc")]
pub use allocator::{ALLOCATOR, Allocator, return_free_memory};
pub use batch_scheduling::use_batch_scheduling;
pub use environment::remove_variables;
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
pub use name_lookup::use_only_hosts_and_dns;
pub use received::{last_received, next_byte_received, record_receive_times};
pub use unacknowledged::{Unacknowledged, unacknowledged};
pub use unread::has_unread_bytes;
