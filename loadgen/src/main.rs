//! The `loadgen` binary: [`encke_loadgen`] with its allocator.

use std::process::ExitCode;

/// mimalloc, because memory that a connection needs only while it opens is freed between long-lived
/// allocations. mimalloc has separate pages for each size, so this leaves no holes, and it aligns tokio's
/// tasks and sockets to cache lines without padding. Huge pages are off: they would make memory resident
/// before it is used.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    encke_loadgen::main()
}
