//! How long tests wait, and the one place where they do.

use std::fmt::Display;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

/// How long anything may take that is to happen at once. A busy machine gets a lot of it.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// How late something timed may be on a busy machine.
pub const LATE: Duration = Duration::from_secs(2);

const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Looks until there is something to see, for [`TIMEOUT`] at most.
///
/// # Panics
/// When there is nothing until then.
#[track_caller]
pub fn eventually<T>(what: impl Display, look: impl FnMut() -> Option<T>) -> T {
    eventually_within(TIMEOUT, what, look)
}

/// Looks until there is something to see, for `limit` at most.
///
/// # Panics
/// When there is nothing until then.
#[track_caller]
pub fn eventually_within<T>(limit: Duration, what: impl Display, look: impl FnMut() -> Option<T>) -> T {
    look_for(limit, look).unwrap_or_else(|| panic!("waited {limit:?} in vain: {what}"))
}

/// Looks until there is something to see, for `limit` at most.
pub(crate) fn look_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + limit;
    loop {
        // Looked at last after the limit, however long a look takes.
        let last = Instant::now() >= until;
        let seen = look();
        if seen.is_some() || last {
            return seen;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
}

/// Waits until a condition holds, for [`TIMEOUT`] at most.
///
/// # Panics
/// When it does not hold until then.
#[track_caller]
pub fn until(what: impl Display, mut holds: impl FnMut() -> bool) {
    eventually(what, || holds().then_some(()));
}

/// Lets real time pass: only where a test is about time in which nothing may happen.
pub fn let_pass(time: Duration) {
    std::thread::sleep(time);
}

/// Heavy tests, those of `heavy::`, take turns: two storms at once would run out of descriptors.
pub fn heavy() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}
