#![expect(unsafe_code, reason = "the call takes a pointer")]

use std::ffi::c_int;
use std::io;

/// The kernel's `struct sched_param`. The C library's type may have more fields.
#[repr(C)]
struct SchedParam {
    sched_priority: c_int,
}

/// Switches the calling thread to `SCHED_BATCH`: when it becomes runnable, it does not preempt a running
/// thread. On an idle processor it starts as quickly as before.
///
/// # Errors
/// The kernel's error.
pub fn use_batch_scheduling() -> io::Result<()> {
    let parameters = SchedParam { sched_priority: 0 };
    // Make the system call directly, because musl's function of this name always fails as unsupported.
    // SAFETY: the kernel reads the parameters, which live until the call returns; 0 means the calling thread.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_BATCH, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::ffi::c_long;
    use std::thread;

    use super::*;

    fn policy() -> c_long {
        // SAFETY: the call accesses no memory of this process; 0 means the calling thread.
        unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }
    }

    #[test]
    fn only_the_calling_thread_changes_its_policy() {
        let before = policy();
        let of_other =
            thread::spawn(|| use_batch_scheduling().map(|()| policy())).join().expect("it does not panic");
        assert_eq!(of_other.expect("the kernel allows it"), c_long::from(libc::SCHED_BATCH));
        assert_eq!(policy(), before);
    }
}
