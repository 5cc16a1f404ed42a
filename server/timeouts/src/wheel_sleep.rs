//! Wakes the sleeping wheel thread only if necessary.
//!
//! A sender puts a timer into the channel, then checks whether the wheel sleeps past the timer's deadline.
//! The wheel announces how long it will sleep, then checks the channel once more. With a fence on both sides,
//! at least one of them sees the other's write. Therefore, no wake-up is lost, and a sender whose deadline is
//! after the planned wake-up makes no system call.

use super::sync::{AtomicU64, Ordering, fence};

const AWAKE: u64 = 0;

/// Sleep that the wheel thread has announced.
#[derive(Debug)]
pub(crate) struct WheelSleep {
    asleep_until: AtomicU64,
}

impl WheelSleep {
    pub(crate) fn new() -> Self {
        Self { asleep_until: AtomicU64::new(AWAKE) }
    }

    /// Whether the wheel sleeps past `deadline` and must be unparked. Called by a sender after it has sent a
    /// timer.
    pub(crate) fn sleeps_beyond(&self, deadline: u64) -> bool {
        fence(Ordering::SeqCst);
        deadline < self.asleep_until.load(Ordering::Relaxed)
    }

    /// Announces that the wheel sleeps until `until`. Called by the wheel, which must check the channel once
    /// more afterwards.
    pub(crate) fn announce(&self, until: u64) {
        self.asleep_until.store(until, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Withdraws the announcement. Called by the wheel, which reads the channel before it sleeps again.
    pub(crate) fn mark_awake(&self) {
        self.asleep_until.store(AWAKE, Ordering::Relaxed);
    }
}
