use std::task::Waker;

use atomic_waker::AtomicWaker;

use crate::arming::Arming;
use crate::timer_owner::TimerOwner;

/// Standalone timer, which belongs to no session: its owner and arming state. Shared by the owner, the wheel
/// and, after expiry, a worker.
#[derive(Debug)]
pub struct TimerCell {
    pub(crate) owner: TimerOwner,
    pub(crate) arming: Arming,
    /// Task that waits for the expiry, if the owner is a sleep. It is boxed, so that it takes only one word
    /// in the timers of logs.
    pub(crate) sleeper: Option<Box<AtomicWaker>>,
}

impl TimerCell {
    /// Creates a timer without a deadline.
    #[must_use]
    pub(crate) fn new(owner: TimerOwner) -> Self {
        let sleeper = matches!(owner, TimerOwner::Sleep).then(Box::default);
        Self { owner, arming: Arming::new(), sleeper }
    }

    /// Takes the waker to call on expiry, unless it was already taken.
    pub(crate) fn take_sleeper(&self) -> Option<Waker> {
        self.sleeper.as_ref()?.take()
    }
}
