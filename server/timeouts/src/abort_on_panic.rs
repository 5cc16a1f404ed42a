use std::thread;

/// Aborts the process if the current thread panics, so that the supervisor restarts it. Used in threads
/// without which the server would keep running but not work.
#[derive(Debug)]
pub struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
