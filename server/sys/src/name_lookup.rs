#![expect(unsafe_code, reason = "no crate provides this function of glibc")]

use std::ffi::{c_char, c_int};
use std::io;
use std::sync::atomic::{AtomicI8, Ordering};

unsafe extern "C" {
    safe static __libc_single_threaded: AtomicI8;
    fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
}

/// Looks up host names only in `/etc/hosts` and by DNS, which needs no module of glibc. Without this call, a
/// statically linked server loads the modules that `/etc/nsswitch.conf` names, and can crash if they belong to
/// another version of glibc than its own.
///
/// # Errors
/// Fails if the process has other threads, which may look up names at the same time, or with glibc's error.
pub fn use_only_hosts_and_dns() -> io::Result<()> {
    if __libc_single_threaded.load(Ordering::Relaxed) == 0 {
        return Err(io::Error::other("the process has other threads"));
    }
    // SAFETY: both strings end with a NUL and live until the call returns. This is the only thread, and no other
    // thread can start before then.
    let result = unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
