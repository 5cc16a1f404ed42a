//! Trying again to get what another process has, before there is a wheel.

use std::thread;
use std::time::Duration;

/// How often to look whether it is free.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// The time that is left to wait.
pub(crate) struct Retry<F> {
    at_most: Duration,
    waited: Duration,
    is_over: F,
}

impl<F: FnMut() -> bool> Retry<F> {
    /// At most so long, and not longer than until `is_over`.
    pub(crate) fn new(at_most: Duration, is_over: F) -> Self {
        Self { at_most, waited: Duration::ZERO, is_over }
    }

    /// Waits until it is time to look again; `say` says for how long it may be, the first time. Returns whether there was time left.
    pub(crate) fn wait(&mut self, say: impl FnOnce(Duration)) -> bool {
        if self.waited >= self.at_most || (self.is_over)() {
            return false;
        }
        if self.waited.is_zero() {
            say(self.at_most);
        }
        #[expect(clippy::disallowed_methods, reason = "there is no wheel yet")]
        thread::sleep(BETWEEN_LOOKS);
        self.waited += BETWEEN_LOOKS;
        true
    }
}
