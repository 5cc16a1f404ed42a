use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Waker};

use atomic_waker::AtomicWaker;
use encke_core::Timestamp;
use encke_core::close::CloseCode;
use encke_core::session::ConnectionId;
use parking_lot::Mutex;

use crate::admission::Permit;

/// What ties a session to the task of one of its connections, and all that a session says to a transport. Owned by both;
/// holds no socket.
///
/// Whatever acts on the session leaves notes here and wakes the task, which does the writing.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: ConnectionId,
    /// Where the connection comes from.
    pub(super) address: IpAddr,
    notes: AtomicU32,
    waker: AtomicWaker,
    /// When bytes last arrived, in the server's time. Stored below the frame decoder.
    received_at: AtomicU64,
    /// The connection's permit, until it ends or another connection takes the session over.
    permit: Mutex<Option<Permit>>,
}

/// What a session wants of its connection. Posting a note twice is the same as posting it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notes(u32);

impl Notes {
    /// Write a ping.
    pub(crate) const PING: Self = Self(1);
    /// Look at what the kernel holds.
    pub(crate) const PROBE: Self = Self(1 << 1);
    /// Read from the logs.
    pub(crate) const READ: Self = Self(1 << 2);
    /// Answer the poll.
    pub(crate) const ANSWER: Self = Self(1 << 3);
    /// Answer the poll: there is another.
    pub(crate) const SUPERSEDED: Self = Self(1 << 4);
    const CLOSE: u32 = 1 << 5;
    const CODE_SHIFT: u32 = 16;

    /// Close with this code.
    pub(crate) const fn close(code: CloseCode) -> Self {
        Self(Self::CLOSE | (code.code() as u32) << Self::CODE_SHIFT)
    }

    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The code to close with, if the session wants it closed.
    pub(crate) fn close_code(self) -> Option<CloseCode> {
        if self.0 & Self::CLOSE == 0 {
            return None;
        }
        let code = u16::try_from(self.0 >> Self::CODE_SHIFT).expect("16 bits remain");
        CloseCode::from_repr(code)
    }
}

impl Link {
    pub(crate) fn new(id: ConnectionId, address: IpAddr, now: Timestamp, permit: Option<Permit>) -> Self {
        Self {
            id,
            address,
            notes: AtomicU32::new(0),
            waker: AtomicWaker::new(),
            received_at: AtomicU64::new(now.as_nanos()),
            permit: Mutex::new(permit),
        }
    }

    /// Where the connection comes from.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Takes the connection's permit away: to be dropped, or for another connection.
    pub(crate) fn take_permit(&self) -> Option<Permit> {
        self.permit.lock().take()
    }

    /// Whether the connection has a permit, or can have that of the one it replaces.
    pub(super) fn can_have_permit(&self, replaced: Option<&Self>) -> bool {
        let has_permit = |link: &Self| link.permit.lock().is_some();
        has_permit(self) || replaced.is_some_and(has_permit)
    }

    /// A connection without a permit gets that of the one it replaces. Returns whether it has one now.
    pub(super) fn ensure_permit(&self, replaced: Option<&Self>) -> bool {
        let mut permit = self.permit.lock();
        if permit.is_none() {
            *permit = replaced.and_then(Self::take_permit);
        }
        permit.is_some()
    }

    /// Leaves a note. Returns the task, which the caller then wakes. A session releases a connection once, so there is at
    /// most one close code.
    #[must_use]
    pub(crate) fn post(&self, notes: Notes) -> Option<Waker> {
        self.notes.fetch_or(notes.0, Ordering::AcqRel);
        self.waker.take()
    }

    /// For the connection's task: takes the notes, and registers the task to be woken by the next.
    // Apart from its callers, these few lines take 1 % of a delivery.
    #[inline]
    pub(crate) fn take_notes(&self, context: &Context<'_>) -> Notes {
        self.waker.register(context.waker());
        // Most wake-ups bring bytes and no note: then a read will do.
        if self.notes.load(Ordering::Acquire) == 0 {
            return Notes(0);
        }
        Notes(self.notes.swap(0, Ordering::AcqRel))
    }

    /// The connection has ended: no note wakes its task. A session between two polls keeps the link, and would keep the task's
    /// memory with it.
    pub(crate) fn forget_task(&self) {
        drop(self.waker.take());
    }

    pub(crate) fn received(&self, now: Timestamp) {
        self.received_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn received_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.received_at.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use super::*;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn a_task_that_has_ended_is_forgotten() {
        let task = Arc::new(Nobody);
        let waker = Waker::from(Arc::clone(&task));
        let now = Timestamp::from_nanos(1);
        let link = Link::new(ConnectionId(1), [127, 0, 0, 1].into(), now, None);
        let _ = link.take_notes(&Context::from_waker(&waker));
        assert_eq!(Arc::strong_count(&task), 3);
        link.forget_task();
        assert_eq!(Arc::strong_count(&task), 2);
        assert!(link.post(Notes::PING).is_none(), "nobody is woken");
    }

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
