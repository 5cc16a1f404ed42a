//! Lock-free synchronization between a sleeping task and the worker that wakes it.

use std::task::{Poll, Waker};

use super::sync::AtomicWaker;

/// Registers the task for the next expiry, then reads the clock.
///
/// In this order, no wake-up is lost. If the timer expires before the registration, the clock shows that it
/// has. If it expires later, the task is woken. In the opposite order, a timer that expires between the two
/// steps would wake the previously registered task, if any, and this task would wait forever.
pub(crate) fn poll_expiry(registered: &AtomicWaker, task: &Waker, is_due: impl FnOnce() -> bool) -> Poll<()> {
    registered.register(task);
    if is_due() { Poll::Ready(()) } else { Poll::Pending }
}
