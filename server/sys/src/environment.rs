#![expect(
    unsafe_code,
    reason = "to remove a variable of the environment is unsafe where others read it meanwhile"
)]

use std::{env, fs, io};

/// Removes variables of the environment, so that no child process inherits them.
///
/// # Errors
/// When there are other threads, which may read the environment meanwhile, or when the kernel does not tell.
pub fn remove_variables(names: &[&str]) -> io::Result<()> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("the process has other threads"));
    }
    for name in names {
        // SAFETY: this thread is the only one, and none can begin before this returns.
        unsafe { env::remove_var(name) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_other_threads_nothing_is_removed() {
        // The test itself runs beside the main thread.
        remove_variables(&["PATH"]).expect_err("there are other threads");
        assert!(env::var_os("PATH").is_some());
    }
}
