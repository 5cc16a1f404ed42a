//! Timeouts of the tests, and all functions that wait.

use std::fmt::Display;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// How long an immediate action may take. It is generous for the sake of busy machines.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// How late a timed action may be on a busy machine.
pub const MAX_LATENESS: Duration = Duration::from_secs(5);

/// Pauses between checks grow, because a check may cost much: some render a page or a server's metrics.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Calls `look` until it returns a value, for at most [`TIMEOUT`].
#[track_caller]
pub fn eventually<T>(what: impl Display, look: impl FnMut() -> Option<T>) -> T {
    eventually_within(TIMEOUT, what, look)
}

/// Calls `look` until it returns a value, for at most `limit`.
#[track_caller]
pub fn eventually_within<T>(limit: Duration, what: impl Display, look: impl FnMut() -> Option<T>) -> T {
    poll_until(limit, look).unwrap_or_else(|| panic!("not within {limit:?}: {what}"))
}

/// Calls `look` until it returns a value, for at most `limit`.
pub(crate) fn poll_until<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + limit;
    let mut pause = FIRST_PAUSE;
    loop {
        // The last call begins after the limit, however long a call takes.
        let last = Instant::now() >= until;
        let seen = look();
        if seen.is_some() || last {
            return seen;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[track_caller]
pub fn until(what: impl Display, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}

/// Sleeps. Only for tests that assert that nothing happens in a period of time.
pub fn let_pass(time: Duration) {
    std::thread::sleep(time);
}

/// Acquires the lock that serialises the tests in `heavy::`: two simultaneous storms would exhaust the
/// descriptors.
pub fn heavy_test_lock() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock()
}
