//! The memory of the process: jemalloc's. What remains of a connection at rest is a little of many sizes, which the C library strews among what the
//! tasks of a crowd have left; jemalloc has what is of one size side by side, and can give the rest back.

use std::time::Duration;

#[global_allocator]
static ALLOCATOR: encke_sys::Allocator = encke_sys::ALLOCATOR;

/// Less, and busy connections would get memory anew from the kernel all the time.
const FREE_FOR: Duration = Duration::from_secs(1);

/// Has memory given back that is free for a second.
pub(super) fn give_back() {
    if let Err(error) = encke_sys::give_back_memory(FREE_FOR) {
        tracing::warn!(%error, "memory that is free is given back late");
    }
}
