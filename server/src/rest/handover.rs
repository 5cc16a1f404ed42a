//! The holder of a connection: its task, or, while it is at rest, whoever has its session's lock.
//!
//! One word has both that and the notes that are left for the connection. It goes to rest by one compare-and-swap from "no notes": a note
//! that was left before keeps the task, and whoever leaves one after sees that there is no task to read it, takes the session's lock, and
//! acts. Both ways, to rest and back, are gone under that lock. A connection that wakes has another word: the one that it had before says for ever that
//! nobody reads it, so whoever has it still must look for the other, under the lock.
//!
//! This file is compiled a second time against loom: see `server/tests/loom.rs`.

use super::sync::{AtomicU32, Ordering};

/// The connection's notes, as bits, and whether it is at rest.
#[derive(Debug)]
pub(crate) struct Handover(AtomicU32);

/// The holder of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// It reads the notes.
    Task,
    /// Nobody reads notes before someone has taken the session's lock and woken the connection.
    Session,
}

impl Handover {
    /// No note has this bit.
    pub(crate) const RESTING: u32 = 1 << 15;

    /// A connection with a task, and no notes.
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Leaves notes. Returns the holder.
    pub(crate) fn post(&self, notes: u32) -> Holder {
        holder(self.0.fetch_or(notes, Ordering::AcqRel))
    }

    /// Leaves notes if a task has the connection. Returns the holder.
    pub(crate) fn post_to_task(&self, notes: u32) -> Holder {
        let post = |word| (holder(word) == Holder::Task).then_some(word | notes);
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, post) {
            Ok(_) => Holder::Task,
            Err(_) => Holder::Session,
        }
    }

    /// For the task: takes the notes.
    // Apart from its callers, it takes 1 % of a delivery.
    #[inline]
    pub(crate) fn take(&self) -> u32 {
        // Most wake-ups bring bytes and no note: then a read will do.
        if self.0.load(Ordering::Acquire) == 0 {
            return 0;
        }
        self.0.swap(0, Ordering::AcqRel)
    }

    /// For the task, with the session's lock: gives the connection to the session. Returns whether it did; not if there is a note.
    pub(crate) fn rest(&self) -> bool {
        self.0.compare_exchange(0, Self::RESTING, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// With the session's lock, and by the task that has just given it up: it has the connection again.
    pub(crate) fn go_on(&self) {
        self.0.fetch_and(!Self::RESTING, Ordering::AcqRel);
    }
}

fn holder(word: u32) -> Holder {
    if word & Handover::RESTING == 0 { Holder::Task } else { Holder::Session }
}
