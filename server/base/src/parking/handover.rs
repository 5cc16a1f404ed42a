//! Ownership of a connection: by its task or, while the connection is parked, by the holder of its session's
//! lock.
//!
//! One word holds both the owner and the pending signals. A single compare-and-swap from "no signals" parks
//! the connection. If a signal is posted before that, parking fails and the task continues. If a signal is
//! posted afterwards, the poster finds that there is no task to read it, takes the session's lock, and acts
//! itself. Parking and unparking both happen while that lock is held. An unparked connection gets a new word.
//! The old word states forever that no task reads it, so code that still has the old word must look up the
//! new word while holding the lock.
//!
//! This file is compiled a second time against loom: see `server/base/tests/loom.rs`.

use super::sync::{AtomicU32, Ordering};

/// A connection's signals, as bits, and whether it is parked.
#[derive(Debug)]
pub struct Handover(AtomicU32);

/// Owner of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionOwner {
    /// The task, which reads the signals.
    Task,
    /// The session. Signals are read only after some thread has taken its lock and unparked the connection.
    Session,
}

impl Handover {
    /// The bit that marks a parked connection. No signal uses it.
    pub const PARKED: u32 = 1 << 15;

    /// Creates the word of a connection with a task and no signals.
    pub fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Posts signals. Returns the owner.
    #[inline]
    pub fn post(&self, signals: u32) -> ConnectionOwner {
        owner_of(self.0.fetch_or(signals, Ordering::AcqRel))
    }

    /// Posts signals if the owner is a task. Returns the owner.
    pub fn post_to_task(&self, signals: u32) -> ConnectionOwner {
        let post = |word| (owner_of(word) == ConnectionOwner::Task).then_some(word | signals);
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, post) {
            Ok(_) => ConnectionOwner::Task,
            Err(_) => ConnectionOwner::Session,
        }
    }

    /// Takes the pending signals. Called by the task.
    // Inlined, because it would take 1 % of a delivery as a separate function.
    #[inline]
    pub fn take(&self) -> u32 {
        // Most wake-ups bring input but no signal, in which case a load is enough.
        if self.0.load(Ordering::Acquire) == 0 {
            return 0;
        }
        self.0.swap(0, Ordering::AcqRel)
    }

    /// Whether signals are pending. Called by the task.
    #[inline]
    pub fn has_signals(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// Passes the connection from its task to the session, unless signals are pending. Returns whether the
    /// connection was passed. Called by the task while holding the session's lock.
    pub fn park(&self) -> bool {
        self.0.compare_exchange(0, Self::PARKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Undoes [`Self::park`], so that the task owns the connection again. Called by the same task, which
    /// still holds the session's lock.
    pub fn cancel_park(&self) {
        self.0.fetch_and(!Self::PARKED, Ordering::AcqRel);
    }
}

#[inline]
fn owner_of(word: u32) -> ConnectionOwner {
    if word & Handover::PARKED == 0 { ConnectionOwner::Task } else { ConnectionOwner::Session }
}
