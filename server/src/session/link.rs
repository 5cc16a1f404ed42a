use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use atomic_waker::AtomicWaker;
use encke_core::Timestamp;
use encke_core::close::CloseCode;
use encke_core::session::ConnectionId;
use parking_lot::Mutex;

use super::cell::SessionRef;
use crate::admission::Permit;
use crate::rest::{Handover, Holder};

/// What ties a session to the task of one of its connections, and all that a session says to a transport. Owned by both;
/// holds no socket.
///
/// Whatever acts on the session leaves notes here and wakes the task, which does the writing.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) id: ConnectionId,
    /// Its session, as a number: known as soon as it has one.
    session: AtomicU64,
    /// Where the connection comes from.
    pub(super) address: IpAddr,
    /// The notes, and whether there is a task to read them.
    handover: Handover,
    waker: AtomicWaker,
    /// When bytes last arrived, in the server's time. Stored below the frame decoder.
    received_at: AtomicU64,
    /// Written before its connection has it.
    begins_after: AtomicU64,
    /// The connection's permit, until it ends or another connection takes the session over.
    permit: Mutex<Option<Permit>>,
}

/// What is left of a link while its connection is at rest, and there is no task that it could tie to the session. Which connection it is, the session knows, being
/// attached to it.
#[derive(Debug)]
pub(crate) struct LinkAtRest {
    permit: Option<Permit>,
    /// One of IPv4 is mapped, which saves the byte that tells them apart, and the seven after it.
    address: Ipv6Addr,
}

const _: () = assert!(size_of::<LinkAtRest>() == 32);

/// What a session wants of its connection. Posting a note twice is the same as posting it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Notes(u32);

/// Who hears of a note.
#[derive(Debug)]
#[must_use]
pub(crate) enum Posted {
    /// The connection's task, which is to be woken unless it is running.
    Task(Option<Waker>),
    /// Nobody: the connection is at rest. It is to be woken, with its session's lock.
    AtRest,
}

impl Notes {
    /// Nothing in particular.
    pub(crate) const NONE: Self = Self(0);
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
    /// A delay is over: if the client was silent, the connection goes to rest.
    pub(crate) const SO_LONG: Self = Self(1 << 6);
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
            session: AtomicU64::new(0),
            address,
            handover: Handover::new(),
            waker: AtomicWaker::new(),
            received_at: AtomicU64::new(now.as_nanos()),
            begins_after: AtomicU64::new(0),
            permit: Mutex::new(permit),
        }
    }

    /// The session that it ties a connection to.
    pub(crate) fn session(&self) -> SessionRef {
        SessionRef::of_number(self.session.load(Ordering::Relaxed))
    }

    /// Before its connection has it.
    pub(super) fn is_of(&self, session: SessionRef) {
        self.session.store(session.number(), Ordering::Relaxed);
    }

    /// The seq after which its connection goes on with the session's stream: what that says of itself later is another's by then, if another has taken it
    /// over.
    pub(crate) fn begins_after(&self) -> u64 {
        self.begins_after.load(Ordering::Relaxed)
    }

    /// Before its connection has it.
    pub(super) fn begin_after(&self, seq: u64) {
        self.begins_after.store(seq, Ordering::Relaxed);
    }

    /// Of a connection at rest, which has a task again. Something was last received at `received_at`. The task finds these notes.
    pub(super) fn awake(
        id: ConnectionId,
        left: &mut LinkAtRest,
        session: SessionRef,
        received_at: Timestamp,
        notes: Notes,
    ) -> Self {
        let link = Self::new(id, left.address(), received_at, left.permit.take());
        link.is_of(session);
        let _ = link.handover.post(notes.0);
        link
    }

    /// Where the connection comes from.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Takes the connection's permit away: to be dropped, or for another connection.
    pub(crate) fn take_permit(&self) -> Option<Permit> {
        self.permit.lock().take()
    }

    pub(super) fn has_permit(&self) -> bool {
        self.permit.lock().is_some()
    }

    /// A connection without a permit gets that of the one it replaces. Returns whether it has one now.
    pub(super) fn ensure_permit(&self, of_replaced: impl FnOnce() -> Option<Permit>) -> bool {
        let mut permit = self.permit.lock();
        if permit.is_none() {
            *permit = of_replaced();
        }
        permit.is_some()
    }

    /// Leaves a note. A session releases a connection once, so there is at most one close code.
    pub(crate) fn post(&self, notes: Notes) -> Posted {
        match self.handover.post(notes.0) {
            Holder::Task => Posted::Task(self.waker.take()),
            Holder::Session => Posted::AtRest,
        }
    }

    /// Leaves a note if the connection has a task. Returns the task, which the caller then wakes.
    #[must_use]
    pub(crate) fn post_to_task(&self, notes: Notes) -> Option<Waker> {
        match self.handover.post_to_task(notes.0) {
            Holder::Task => self.waker.take(),
            Holder::Session => None,
        }
    }

    /// With the session's lock: the connection goes to rest, unless there is a note. Its task, which calls this, ends if it does. From then on this is a
    /// link to nothing, which says so to whoever still has it.
    pub(super) fn rest(&self) -> bool {
        // Before anyone can wake the connection: the waker would be that of its next task.
        self.forget_task();
        self.handover.rest()
    }

    /// With the session's lock: the connection could not go to rest, and goes on.
    pub(super) fn go_on(&self) {
        self.handover.go_on();
    }

    /// What remains of it at rest. The permit is its own until the connection [is at rest](LinkAtRest::rests).
    pub(crate) fn at_rest(&self) -> LinkAtRest {
        let address = match self.address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        LinkAtRest { permit: None, address }
    }

    /// For the connection's task: takes the notes, and registers the task to be woken by the next.
    // Apart from its callers, these few lines take 1 % of a delivery.
    #[inline]
    pub(crate) fn take_notes(&self, context: &Context<'_>) -> Notes {
        self.waker.register(context.waker());
        Notes(self.handover.take())
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

impl LinkAtRest {
    /// The connection has gone to rest.
    pub(super) fn rests(&mut self, link: &Link) {
        self.permit = link.take_permit();
    }

    pub(super) fn address(&self) -> IpAddr {
        self.address.to_canonical()
    }

    pub(super) fn has_permit(&self) -> bool {
        self.permit.is_some()
    }

    pub(super) fn take_permit(&mut self) -> Option<Permit> {
        self.permit.take()
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
        assert!(matches!(link.post(Notes::PING), Posted::Task(None)), "nobody is woken");
    }

    #[test]
    fn a_note_keeps_the_task_and_at_rest_nobody_hears_one() {
        let link = Link::new(ConnectionId(1), [127, 0, 0, 1].into(), Timestamp::from_nanos(1), None);
        let take = || link.take_notes(&Context::from_waker(Waker::noop()));
        let _ = link.post(Notes::PING);
        assert!(!link.rest(), "there is a note");
        assert_eq!(take(), Notes::PING);
        assert!(link.rest());
        assert!(matches!(link.post(Notes::READ), Posted::AtRest));
        assert!(link.post_to_task(Notes::PROBE).is_none());
        let mut left = link.at_rest();
        let (session, received_at) = (SessionRef::of_number(7), Timestamp::from_nanos(2));
        let id = ConnectionId(2);
        let link = Link::awake(id, &mut left, session, received_at, Notes::PING);
        assert_eq!((link.id, link.session(), link.received_at()), (id, session, received_at));
        let take = || link.take_notes(&Context::from_waker(Waker::noop()));
        assert_eq!(take(), Notes::PING, "and none that nobody could hear");
        assert_eq!(take(), Notes::NONE);
        for code in CloseCode::ALL {
            assert_eq!(Notes::close(code).0 & Handover::RESTING, 0);
        }
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
