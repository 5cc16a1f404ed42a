use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Waker};

use atomic_waker::AtomicWaker;
use encke_core::Timestamp;
use encke_core::close::CloseCode;
use encke_core::session::ConnectionId;
use parking_lot::Mutex;

use crate::transport::Place;

/// What ties a session to the task of one of its connections. Owned by both; holds no socket.
///
/// Whoever acts on the session leaves notes here and wakes the task, which does the writing.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: ConnectionId,
    notes: AtomicU32,
    waker: AtomicWaker,
    /// When bytes last arrived, in the server's time. Stored below the frame decoder.
    heard_at: AtomicU64,
    /// The connection's place among those that there may be, until it lets go of it or another takes the session over.
    place: Mutex<Option<Place>>,
}

/// Notes for a connection's task. They do not add up: asking twice is asking once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notes(u32);

impl Notes {
    /// Write a ping.
    pub(crate) const PING: Self = Self(1);
    /// Look at what the kernel holds.
    pub(crate) const PROBE: Self = Self(1 << 1);
    /// Read from the logs.
    pub(crate) const READ: Self = Self(1 << 2);
    const CLOSE: u32 = 1 << 3;
    const CODE_SHIFT: u32 = 16;

    /// Close with this code.
    pub(crate) const fn close(code: CloseCode) -> Self {
        Self(Self::CLOSE | (code.code() as u32) << Self::CODE_SHIFT)
    }

    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The code to close with, if so asked.
    pub(crate) fn close_code(self) -> Option<CloseCode> {
        if self.0 & Self::CLOSE == 0 {
            return None;
        }
        let code = u16::try_from(self.0 >> Self::CODE_SHIFT).expect("16 bits remain");
        CloseCode::from_repr(code)
    }
}

impl Link {
    pub(crate) fn new(id: ConnectionId, now: Timestamp, place: Option<Place>) -> Self {
        Self {
            id,
            notes: AtomicU32::new(0),
            waker: AtomicWaker::new(),
            heard_at: AtomicU64::new(now.as_nanos()),
            place: Mutex::new(place),
        }
    }

    /// Lets go of the connection's place, or hands it on.
    pub(crate) fn leave(&self) -> Option<Place> {
        self.place.lock().take()
    }

    /// Makes sure that the connection has a place: that of the one it replaces, if it has none. Returns whether it has.
    pub(super) fn settle(&self, replaced: Option<&Self>) -> bool {
        let mut place = self.place.lock();
        if place.is_none() {
            *place = replaced.and_then(Self::leave);
        }
        place.is_some()
    }

    /// Leaves a note. Returns the task, which is to be woken then. A session lets go of a connection once, so there is
    /// one code at most.
    #[must_use]
    pub(crate) fn post(&self, notes: Notes) -> Option<Waker> {
        self.notes.fetch_or(notes.0, Ordering::AcqRel);
        self.waker.take()
    }

    /// For the connection's task: takes the notes, and is woken by the next.
    pub(crate) fn take_notes(&self, context: &Context<'_>) -> Notes {
        self.waker.register(context.waker());
        // Most wake-ups bring bytes and no note: then a read will do.
        if self.notes.load(Ordering::Acquire) == 0 {
            return Notes(0);
        }
        Notes(self.notes.swap(0, Ordering::AcqRel))
    }

    pub(crate) fn heard(&self, now: Timestamp) {
        self.heard_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn heard_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.heard_at.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_close_code_survives_a_note() {
        for code in CloseCode::ALL {
            let notes = Notes(Notes::close(code).0 | Notes::PING.0);
            assert_eq!(notes.close_code(), Some(code));
            assert!(notes.contains(Notes::PING));
            assert!(!notes.contains(Notes::PROBE));
        }
        assert_eq!(Notes::PROBE.close_code(), None);
    }
}
