#![expect(unsafe_code, reason = "no crate provides this function of glibc")]

use std::ffi::{c_char, c_int};
use std::io;
use std::sync::atomic::{AtomicI8, Ordering};

unsafe extern "C" {
    safe static __libc_single_threaded: AtomicI8;
    fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
}

/// Restricts the lookup of host names to `/etc/hosts` and DNS, which need no modules of glibc. Without this call, a
/// statically linked server loads the modules that `/etc/nsswitch.conf` names, and can crash if they belong to
/// another version of glibc.
///
/// # Errors
/// Returns glibc's error. Also fails if the process has other threads, which might look up names at the same time.
pub fn use_only_hosts_and_dns() -> io::Result<()> {
    if __libc_single_threaded.load(Ordering::Relaxed) == 0 {
        return Err(io::Error::other("the process has other threads"));
    }
    // SAFETY: both strings end with a NUL and live until the call returns. This is the only thread, and no other
    // thread can start before then.
    let result = unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
