//! How a sleeping task and the worker that wakes it agree, without a lock.

use std::task::{Poll, Waker};

use super::sync::AtomicWaker;

/// Registers the task for the next expiry, and only then reads the clock.
///
/// In this order no wake-up is lost. If the timer expires before the registration, the clock read after it says so; if
/// it expires later, the task is woken. The other way round, a timer that expires between the two wakes a task that
/// was registered before, or none, and this one waits forever.
pub(crate) fn poll_expiry(registered: &AtomicWaker, task: &Waker, is_due: impl FnOnce() -> bool) -> Poll<()> {
    registered.register(task);
    if is_due() { Poll::Ready(()) } else { Poll::Pending }
}
