use std::thread;

/// Ends the process if its thread panics: for threads without which the server only seems to work. It is started again then.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
