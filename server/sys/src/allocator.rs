#![expect(
    unsafe_code,
    reason = "jemalloc looks for its settings by a name, and takes some as whatever type their names have"
)]

use std::io;
use std::time::Duration;

use tikv_jemalloc_ctl::{arenas, background_thread, max_background_threads, raw};

/// jemalloc: what is of one size is side by side, page by page. So the little that remains of a connection at rest keeps none of the memory that
/// the tasks of a whole crowd have left.
pub type Allocator = tikv_jemallocator::Jemalloc;

/// What each thread keeps of each size for its next allocations: at most 20, and 4 of what is larger than pages, rather than 200 and 20. A thread that sleeps keeps it, so
/// after 10,000 connections that went to rest all threads together kept 400 KiB more.
// SAFETY: jemalloc declares a pointer to text that ends with a zero, and looks for it under this name before it allocates anything.
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8; 49] = b"tcache_nslots_small_max:20,tcache_nslots_large:4\0";

/// The process's.
pub const ALLOCATOR: Allocator = tikv_jemallocator::Jemalloc;

/// From now on, memory that is free for so long goes back to the kernel bit by bit, whatever the process does meanwhile. For the program that has
/// [`ALLOCATOR`], once: it begins a thread.
///
/// # Errors
/// What jemalloc says of it. Then it gives memory back as it does by default: after ten seconds, and only where something is freed.
pub fn give_back_memory(free_for: Duration) -> io::Result<()> {
    let millis = isize::try_from(free_for.as_millis()).unwrap_or(isize::MAX);
    set(millis).map_err(|error| io::Error::other(error.to_string()))
}

fn set(dirty_decay_ms: isize) -> tikv_jemalloc_ctl::Result<()> {
    // SAFETY: the setting is of the type `ssize_t`, which `isize` is.
    unsafe { raw::write(b"arenas.dirty_decay_ms\0", dirty_decay_ms) }?;
    // That was for arenas to come.
    for arena in 0..arenas::narenas::read()? {
        // SAFETY: it is of the type `bool`, which is never anything but 0 or 1.
        if unsafe { raw::read(name(arena, "initialized").as_bytes()) }? {
            // SAFETY: as above.
            unsafe { raw::write(name(arena, "dirty_decay_ms").as_bytes(), dirty_decay_ms) }?;
        }
    }
    // By default there would be up to four. Where one cannot be made, the first tries to all the time.
    max_background_threads::write(1)?;
    background_thread::write(true).inspect_err(|_| {
        // It would count on a thread that it could not make.
        let _ = background_thread::write(false);
    })
}

/// Of a setting of one arena, as jemalloc has it.
fn name(arena: u32, setting: &str) -> String {
    format!("arena.{arena}.{setting}\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static OF_THESE_TESTS: Allocator = ALLOCATOR;

    #[test]
    fn jemalloc_has_found_its_settings() {
        for (name, expected) in [("opt.tcache_nslots_small_max\0", 20), ("opt.tcache_nslots_large\0", 4)] {
            // SAFETY: it is of the type `unsigned`.
            let found: u32 = unsafe { raw::read(name.as_bytes()) }.expect("a setting");
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn jemalloc_takes_the_settings() {
        give_back_memory(Duration::from_millis(1_234)).expect("jemalloc has these settings");
        for name in ["arenas.dirty_decay_ms\0".into(), name(0, "dirty_decay_ms")] {
            // SAFETY: it is of the type `ssize_t`.
            let millis: isize = unsafe { raw::read(name.as_bytes()) }.expect("a setting");
            assert_eq!(millis, 1_234);
        }
        assert!(background_thread::read().expect("a setting"));
        assert_eq!(max_background_threads::read().expect("a setting"), 1);
    }
}
