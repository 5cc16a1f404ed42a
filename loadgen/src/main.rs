//! The binary: [`encke_loadgen`] with its allocator.

use std::process::ExitCode;

/// What a connection needs while it opens is freed between what others keep for long. This allocator has pages for each size,
/// so it does not leave holes; and it aligns tokio's tasks and sockets to cache lines without padding. (Without huge pages: they
/// would make memory resident before it is used.)
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    encke_loadgen::main()
}
