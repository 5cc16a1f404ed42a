#![expect(unsafe_code, reason = "the call takes a pointer")]

use std::ffi::c_int;
use std::io;

/// What the kernel calls `struct sched_param`. That of a C library may have more in it.
#[repr(C)]
struct Parameters {
    sched_priority: c_int,
}

/// From now on the calling thread waits for its turn when there is something for it to do, and does not take the processor from a thread that
/// runs (`SCHED_BATCH`). Where a processor is free it runs as soon as ever.
///
/// # Errors
/// The kernel's.
pub fn wait_for_turn() -> io::Result<()> {
    let parameters = Parameters { sched_priority: 0 };
    // musl has a function of this name that only says that it does nothing. So the kernel is called by its number.
    // SAFETY: the kernel reads the parameters, which live until it has; 0 is this thread.
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
        // SAFETY: it reads nothing of this process; 0 is this thread.
        unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) }
    }

    #[test]
    fn one_thread_waits_and_others_do_not() {
        let before = policy();
        let of_other =
            thread::spawn(|| wait_for_turn().map(|()| policy())).join().expect("it does not panic");
        assert_eq!(of_other.expect("the kernel allows it"), c_long::from(libc::SCHED_BATCH));
        assert_eq!(policy(), before);
    }
}
