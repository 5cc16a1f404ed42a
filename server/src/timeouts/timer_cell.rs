use std::task::Waker;

use atomic_waker::AtomicWaker;

use super::arming::Arming;
use super::owners::TimerOwner;

/// A timer that is no session's: who owns it and when it is to expire. Shared by its owner, the wheel and, on its way, a worker.
#[derive(Debug)]
pub(crate) struct TimerCell {
    pub(super) owner: TimerOwner,
    pub(super) arming: Arming,
    /// The task that waits for the expiry, if the owner is a sleep. Boxed, so that those of logs pay one word for it.
    pub(super) sleeper: Option<Box<AtomicWaker>>,
}

impl TimerCell {
    /// A timer with no deadline yet.
    #[must_use]
    pub(crate) fn new(owner: TimerOwner) -> Self {
        let sleeper = matches!(owner, TimerOwner::Sleep).then(Box::default);
        Self { owner, arming: Arming::new(), sleeper }
    }

    /// The task to wake on expiry, unless it was woken already.
    pub(super) fn take_sleeper(&self) -> Option<Waker> {
        self.sleeper.as_ref()?.take()
    }
}
