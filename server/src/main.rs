//! The binary `encke`.

use std::process::ExitCode;

// See `cli/memory.rs`.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: encke_sys::Allocator = encke_sys::ALLOCATOR;

fn main() -> ExitCode {
    encke_server::cli::main()
}
