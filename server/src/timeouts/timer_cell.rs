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

/// What becomes of a timer when it has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnceExpired {
    /// It is armed at once for when its owner mostly wants it next: that request then crosses no thread.
    ArmedAgain,
    /// It stays in the wheel until its owner requests another deadline.
    Rests,
    /// Its owner is over, and need not say so.
    Leaves,
}

impl TimerCell {
    /// A timer with no deadline yet.
    #[must_use]
    pub(crate) fn new(owner: TimerOwner) -> Self {
        let sleeper = matches!(owner, TimerOwner::Sleep).then(Box::default);
        Self { owner, arming: Arming::new(), sleeper }
    }

    /// What the wheel does with the timer when it has expired.
    pub(super) fn once_expired(&self) -> OnceExpired {
        match self.owner {
            TimerOwner::Session(_) => OnceExpired::ArmedAgain,
            TimerOwner::Log(_) => OnceExpired::Rests,
            TimerOwner::Sleep => OnceExpired::Leaves,
        }
    }

    /// The task to wake on expiry, unless it was woken already.
    pub(super) fn take_sleeper(&self) -> Option<Waker> {
        self.sleeper.as_ref()?.take()
    }
}
