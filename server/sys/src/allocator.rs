#![expect(unsafe_code, reason = "a setting of jemalloc is written as whatever type its name has")]

use std::io;
use std::time::Duration;

use tikv_jemalloc_ctl::{background_thread, raw};

/// jemalloc: what is of one size is side by side, page by page. So the little that remains of a connection at rest keeps none of the memory that
/// the tasks of a whole crowd have left.
pub type Allocator = tikv_jemallocator::Jemalloc;

/// The process's.
pub const ALLOCATOR: Allocator = tikv_jemallocator::Jemalloc;

/// From now on, memory that is free for so long goes back to the kernel bit by bit, whatever the process does meanwhile. For the program that has
/// [`ALLOCATOR`], once: it begins a thread.
///
/// # Errors
/// What jemalloc says of it. Then it gives memory back as it does by default: after ten seconds, and only where something is freed.
pub fn give_back_memory(free_for: Duration) -> io::Result<()> {
    let millis = isize::try_from(free_for.as_millis()).unwrap_or(isize::MAX);
    for name in [ARENAS_TO_COME, ARENAS_THERE_ARE] {
        // SAFETY: both settings are of the type `ssize_t`, which `isize` is.
        unsafe { raw::write(name, millis) }.map_err(|error| io::Error::other(error.to_string()))?;
    }
    background_thread::write(true).map_err(|error| io::Error::other(error.to_string()))
}

const ARENAS_TO_COME: &[u8] = b"arenas.dirty_decay_ms\0";

/// 4096 is jemalloc's `MALLCTL_ARENAS_ALL`.
const ARENAS_THERE_ARE: &[u8] = b"arena.4096.dirty_decay_ms\0";

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static OF_THESE_TESTS: Allocator = ALLOCATOR;

    #[test]
    fn jemalloc_takes_the_settings() {
        give_back_memory(Duration::from_millis(1_234)).expect("jemalloc has these settings");
        for name in [ARENAS_TO_COME, &b"arena.0.dirty_decay_ms\0"[..]] {
            // SAFETY: it is of the type `ssize_t`.
            let millis: isize = unsafe { raw::read(name) }.expect("a setting");
            assert_eq!(millis, 1_234);
        }
        assert!(background_thread::read().expect("a setting"));
    }
}
