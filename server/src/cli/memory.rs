//! Memory allocation with jemalloc. A parked connection keeps small allocations of many sizes. The C
//! library's allocator scatters them among memory that was freed by the tasks of many connections; jemalloc
//! groups allocations by size, and can return the rest to the kernel.

use std::time::Duration;

/// How long memory stays free before it is returned. With a shorter time, busy connections would constantly
/// request memory from the kernel.
const DECAY_TIME: Duration = Duration::from_secs(1);

/// Makes the allocator return memory that has been free for a second.
pub(super) fn return_free_memory() {
    if let Err(error) = encke_sys::return_free_memory(DECAY_TIME) {
        tracing::warn!(%error, "cannot configure the allocator: free memory is returned to the kernel late");
    }
}
