//! Wakes the sleeping wheel thread only if necessary.
//!
//! The sender puts a timer into the channel, then checks whether the wheel sleeps past the timer's deadline.
//! The wheel announces how long it will sleep, then checks the channel once more. With a fence on both sides,
//! at least one of them sees the other's write. No wake-up is lost, and a sender whose deadline lies after
//! the planned wake-up makes no system call.

use super::sync::{AtomicU64, Ordering, fence};

const AWAKE: u64 = 0;

/// Announced sleep of the wheel thread.
#[derive(Debug)]
pub(crate) struct WheelSleep {
    asleep_until: AtomicU64,
}

impl WheelSleep {
    pub(crate) fn new() -> Self {
        Self { asleep_until: AtomicU64::new(AWAKE) }
    }

    /// For a sender that has sent a timer: whether the wheel sleeps past `deadline` and must be unparked.
    pub(crate) fn sleeps_beyond(&self, deadline: u64) -> bool {
        fence(Ordering::SeqCst);
        deadline < self.asleep_until.load(Ordering::Relaxed)
    }

    /// For the wheel: announces that it sleeps until `until`. The wheel must check the channel once more
    /// afterwards.
    pub(crate) fn announce(&self, until: u64) {
        self.asleep_until.store(until, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// For the wheel: withdraws the announcement. The wheel reads the channel before it sleeps again.
    pub(crate) fn mark_awake(&self) {
        self.asleep_until.store(AWAKE, Ordering::Relaxed);
    }
}
