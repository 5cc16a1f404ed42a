//! How a sender wakes the wheel thread only when it must.
//!
//! The sender has put a timer into the channel, then looks whether the wheel sleeps beyond its deadline. The wheel
//! announces how long it will sleep, then looks into the channel once more. With a fence on both sides, at least
//! one sees the other: no wake-up is lost, and a sender whose deadline lies beyond the planned wake-up makes no
//! system call.

use super::sync::{AtomicU64, Ordering, fence};

const AWAKE: u64 = 0;

/// Until when the wheel sleeps, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Parking {
    asleep_until: AtomicU64,
}

impl Parking {
    pub(crate) fn new() -> Self {
        Self { asleep_until: AtomicU64::new(AWAKE) }
    }

    /// For a sender, having sent a timer that is to expire at `deadline`: must the wheel be unparked?
    pub(crate) fn sleeps_beyond(&self, deadline: u64) -> bool {
        fence(Ordering::SeqCst);
        deadline < self.asleep_until.load(Ordering::Relaxed)
    }

    /// For the wheel: it is about to sleep until then. The channel must be looked into once more after this.
    pub(crate) fn announce(&self, until: u64) {
        self.asleep_until.store(until, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// For the wheel: it is awake, and looks into the channel before it sleeps again.
    pub(crate) fn awake(&self) {
        self.asleep_until.store(AWAKE, Ordering::Relaxed);
    }
}
