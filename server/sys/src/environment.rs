#![expect(unsafe_code, reason = "removing an environment variable is unsafe while other threads may read it")]

use std::{env, fs, io};

/// Removes environment variables, so that child processes do not inherit them.
///
/// # Errors
/// Fails if the process has other threads, which may read the environment at the same time, or if the kernel
/// cannot list the threads.
pub fn remove_variables(names: &[&str]) -> io::Result<()> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("the process has other threads"));
    }
    for name in names {
        // SAFETY: this is the only thread, and no other thread can start before this function returns.
        unsafe { env::remove_var(name) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_removed_while_other_threads_exist() {
        // The test harness runs this test on a separate thread.
        remove_variables(&["PATH"]).expect_err("there are other threads");
        assert!(env::var_os("PATH").is_some());
    }
}
