#![expect(
    unsafe_code,
    reason = "jemalloc finds its settings by symbol name, and some are read and written without type checks"
)]

use std::io;
use std::time::Duration;

use tikv_jemalloc_ctl::{arenas, background_thread, max_background_threads, raw};

/// jemalloc, which places allocations of equal size on the same pages. Therefore, the small allocations that
/// parked connections keep do not retain the memory freed by the connections' tasks.
pub type Allocator = tikv_jemallocator::Jemalloc;

/// Limits the thread caches to 20 small and 4 large allocations per size class, instead of 200 and 20. A
/// sleeping thread keeps its cache: with the defaults, all threads together kept 400 KiB more after 10,000
/// connections were parked.
// SAFETY: jemalloc declares a pointer to zero-terminated text, and looks it up under this name before its
// first allocation.
#[unsafe(export_name = "_rjem_malloc_conf")]
static SETTINGS: &[u8; 49] = b"tcache_nslots_small_max:20,tcache_nslots_large:4\0";

pub const ALLOCATOR: Allocator = tikv_jemallocator::Jemalloc;

/// Makes jemalloc gradually return memory to the kernel once it has been free for `free_for`, whether or not
/// the process is active. Starts a thread. Must be called once, by the program that uses [`ALLOCATOR`].
///
/// # Errors
/// jemalloc's error. In this case, jemalloc keeps its default behaviour: it returns memory after ten seconds,
/// and only when something is freed.
pub fn return_free_memory(free_for: Duration) -> io::Result<()> {
    let millis = isize::try_from(free_for.as_millis()).unwrap_or(isize::MAX);
    set(millis).map_err(|error| io::Error::other(error.to_string()))
}

fn set(dirty_decay_ms: isize) -> tikv_jemalloc_ctl::Result<()> {
    // SAFETY: the setting is of type `ssize_t`, which `isize` matches.
    unsafe { raw::write(b"arenas.dirty_decay_ms\0", dirty_decay_ms) }?;
    // The call above applies only to new arenas.
    for arena in 0..arenas::narenas::read()? {
        // SAFETY: the setting is of type `bool`, which is always 0 or 1.
        if unsafe { raw::read(name(arena, "initialized").as_bytes()) }? {
            // SAFETY: the setting is of type `ssize_t`, which `isize` matches.
            unsafe { raw::write(name(arena, "dirty_decay_ms").as_bytes(), dirty_decay_ms) }?;
        }
    }
    // Limit the number of background threads. By default, jemalloc starts up to four, and if one of them
    // cannot be created, the first one retries continually.
    max_background_threads::write(1)?;
    background_thread::write(true).inspect_err(|_| {
        // Disable background threads again, or jemalloc would rely on a thread that it could not create.
        let _ = background_thread::write(false);
    })
}

/// Returns jemalloc's name for a setting of one arena.
fn name(arena: u32, setting: &str) -> String {
    format!("arena.{arena}.{setting}\0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static OF_THESE_TESTS: Allocator = ALLOCATOR;

    #[test]
    fn jemalloc_has_read_its_settings() {
        for (name, expected) in [("opt.tcache_nslots_small_max\0", 20), ("opt.tcache_nslots_large\0", 4)] {
            // SAFETY: the setting is of type `unsigned`.
            let found: u32 = unsafe { raw::read(name.as_bytes()) }.expect("a setting");
            assert_eq!(found, expected, "{name}");
        }
    }

    #[test]
    fn jemalloc_takes_the_settings() {
        return_free_memory(Duration::from_millis(1_234)).expect("jemalloc has these settings");
        for name in ["arenas.dirty_decay_ms\0".into(), name(0, "dirty_decay_ms")] {
            // SAFETY: the setting is of type `ssize_t`.
            let millis: isize = unsafe { raw::read(name.as_bytes()) }.expect("a setting");
            assert_eq!(millis, 1_234);
        }
        assert!(background_thread::read().expect("a setting"));
        assert_eq!(max_background_threads::read().expect("a setting"), 1);
    }
}
