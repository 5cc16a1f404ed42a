use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Waker};

use atomic_waker::AtomicWaker;
use encke_base::locks::Mutex;
use encke_base::parking::{ConnectionOwner, Handover};
use encke_core::Timestamp;
use encke_core::session::ConnectionId;

use super::signals::Signals;
use crate::admission::Permit;
use crate::session::session_ref::SessionRef;

/// Connects a session to the task of one of its connections. It is owned by both, and holds no socket.
///
/// Code that acts on the session posts signals and wakes the task, which does the writing. A session has no
/// other way to reach a transport.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(crate) id: ConnectionId,
    /// The session's reference, as a number. Set when the connection gets a session.
    session: AtomicU64,
    pub(crate) address: IpAddr,
    /// Pending signals, and whether there is a task to read them.
    handover: Handover,
    waker: AtomicWaker,
    /// When bytes last arrived, in nanoseconds of the server's clock. Recorded when they are read, before
    /// frames are decoded.
    received_at: AtomicU64,
    /// Seq after which the connection continues the stream. Written before the connection sees the mailbox.
    start_seq: AtomicU64,
    /// The connection's permit, until the connection ends or another one takes over the session.
    permit: Mutex<Option<Permit>>,
}

/// Part of a mailbox that is kept while its connection is parked. The connection's id is not kept: the
/// session knows which connection it is attached to.
#[derive(Debug)]
pub(crate) struct ParkedMailbox {
    permit: Option<Permit>,
    /// IPv4 addresses are stored as IPv4-mapped IPv6 addresses. This saves 8 bytes: the tag of an `IpAddr`
    /// and its padding.
    address: Ipv6Addr,
}

const _: () = assert!(size_of::<ParkedMailbox>() == 32);

/// Recipient of a signal.
#[derive(Debug)]
#[must_use]
pub(crate) enum Posted {
    /// The connection's task, to be woken unless it is running.
    Task(Option<Waker>),
    /// There is no task: the connection is parked, and must be unparked while holding its session's lock.
    Parked,
}

impl Mailbox {
    pub(crate) fn new(id: ConnectionId, address: IpAddr, now: Timestamp, permit: Option<Permit>) -> Self {
        Self {
            id,
            session: AtomicU64::new(0),
            address,
            handover: Handover::new(),
            waker: AtomicWaker::new(),
            received_at: AtomicU64::new(now.as_nanos()),
            start_seq: AtomicU64::new(0),
            permit: Mutex::new(permit),
        }
    }

    /// Returns the session of this mailbox.
    pub(crate) fn session(&self) -> SessionRef {
        SessionRef::from_u64(self.session.load(Ordering::Relaxed))
    }

    /// Sets the session. Must be called before the connection sees the mailbox.
    pub(crate) fn set_session(&self, session: SessionRef) {
        self.session.store(session.to_u64(), Ordering::Relaxed);
    }

    /// Returns the seq after which this connection continues the session's stream. The session's own counter
    /// cannot be used for this: another connection that took over the session may have increased it.
    pub(crate) fn start_seq(&self) -> u64 {
        self.start_seq.load(Ordering::Relaxed)
    }

    /// Sets [`Self::start_seq`]. Must be called before the connection sees the mailbox.
    pub(crate) fn set_start_seq(&self, seq: u64) {
        self.start_seq.store(seq, Ordering::Relaxed);
    }

    /// Creates the mailbox of an unparked connection, with `signals` pending. Bytes last arrived at
    /// `received_at`.
    pub(crate) fn unparked(
        id: ConnectionId,
        parked: &mut ParkedMailbox,
        session: SessionRef,
        received_at: Timestamp,
        signals: Signals,
    ) -> Self {
        let mailbox = Self::new(id, parked.address(), received_at, parked.permit.take());
        mailbox.set_session(session);
        let _ = mailbox.handover.post(signals.bits());
        mailbox
    }

    /// Returns the remote address of the connection.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Takes the connection's permit, to drop it or to pass it to another connection.
    pub(crate) fn take_permit(&self) -> Option<Permit> {
        self.permit.lock().take()
    }

    pub(crate) fn has_permit(&self) -> bool {
        self.permit.lock().is_some()
    }

    /// Takes the permit of the replaced connection if this connection has none.
    pub(crate) fn ensure_permit(&self, replaced_permit: impl FnOnce() -> Option<Permit>) {
        if !self.has_permit() {
            // Take the other permit first: both permits have locks of the same level, which must not be nested.
            let permit = replaced_permit();
            *self.permit.lock() = permit;
        }
    }

    /// Posts signals. At most one close code is ever posted, since a session releases a connection only once.
    pub(crate) fn post(&self, signals: Signals) -> Posted {
        match self.handover.post(signals.bits()) {
            ConnectionOwner::Task => Posted::Task(self.waker.take()),
            ConnectionOwner::Session => Posted::Parked,
        }
    }

    /// Posts signals if the connection has a task. Returns the waker of the task, for the caller to wake.
    #[must_use]
    pub(crate) fn post_to_task(&self, signals: Signals) -> Option<Waker> {
        match self.handover.post_to_task(signals.bits()) {
            ConnectionOwner::Task => self.waker.take(),
            ConnectionOwner::Session => None,
        }
    }

    /// Parks the connection, unless signals are pending. Returns whether the connection is parked, in which
    /// case the calling task must end. The caller holds the session's lock. Once the connection is parked,
    /// signals posted to this mailbox are refused with [`Posted::Parked`].
    pub(crate) fn park(&self) -> bool {
        // Clear the waker before the connection can be unparked: afterwards, the waker would be the next
        // task's.
        self.clear_waker();
        self.handover.park()
    }

    /// Undoes [`Self::park`] if the connection could not be parked. The caller still holds the session's
    /// lock.
    pub(crate) fn cancel_park(&self) {
        self.handover.cancel_park();
    }

    /// Returns the part that a parked connection keeps. The permit is moved to it only when the connection
    /// [is parked](ParkedMailbox::take_permit_from).
    pub(crate) fn to_parked(&self) -> ParkedMailbox {
        let address = match self.address {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => address,
        };
        ParkedMailbox { permit: None, address }
    }

    /// Takes the pending signals, and registers the calling task to be woken by the next one.
    // Inlined, because these few lines would take 1 % of a delivery as a separate function.
    #[inline]
    pub(crate) fn take_signals(&self, context: &Context<'_>) -> Signals {
        self.waker.register(context.waker());
        Signals::from_bits(self.handover.take())
    }

    /// Whether signals are pending.
    pub(crate) fn has_signals(&self) -> bool {
        self.handover.has_signals()
    }

    /// Removes the waker of a connection that has ended. Between polls, the session keeps the mailbox, and
    /// the waker would keep the task's memory alive.
    pub(crate) fn clear_waker(&self) {
        drop(self.waker.take());
    }

    pub(crate) fn received(&self, now: Timestamp) {
        self.received_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn received_at(&self) -> Timestamp {
        Timestamp::from_nanos(self.received_at.load(Ordering::Relaxed))
    }
}

impl ParkedMailbox {
    /// Takes the permit of a connection that was parked.
    pub(crate) fn take_permit_from(&mut self, mailbox: &Mailbox) {
        self.permit = mailbox.take_permit();
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address.to_canonical()
    }

    pub(crate) fn has_permit(&self) -> bool {
        self.permit.is_some()
    }

    pub(crate) fn take_permit(&mut self) -> Option<Permit> {
        self.permit.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Wake;

    use encke_core::close::CloseCode;

    use super::*;

    struct NoopWake;

    impl Wake for NoopWake {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn cleared_waker_releases_the_task() {
        let task = Arc::new(NoopWake);
        let waker = Waker::from(Arc::clone(&task));
        let now = Timestamp::from_nanos(1);
        let mailbox = Mailbox::new(ConnectionId(1), [127, 0, 0, 1].into(), now, None);
        let _ = mailbox.take_signals(&Context::from_waker(&waker));
        assert_eq!(Arc::strong_count(&task), 3);
        mailbox.clear_waker();
        assert_eq!(Arc::strong_count(&task), 2);
        assert!(matches!(mailbox.post(Signals::PING), Posted::Task(None)), "no task to wake");
    }

    #[test]
    fn pending_signals_prevent_parking_and_parked_mailboxes_refuse_signals() {
        let mailbox = Mailbox::new(ConnectionId(1), [127, 0, 0, 1].into(), Timestamp::from_nanos(1), None);
        let take = || mailbox.take_signals(&Context::from_waker(Waker::noop()));
        let _ = mailbox.post(Signals::PING);
        assert!(!mailbox.park(), "a signal is pending");
        assert_eq!(take(), Signals::PING);
        assert!(mailbox.park());
        assert!(matches!(mailbox.post(Signals::READ), Posted::Parked));
        assert!(mailbox.post_to_task(Signals::PROBE).is_none());
        let mut parked = mailbox.to_parked();
        let (session, received_at) = (SessionRef::from_u64(7), Timestamp::from_nanos(2));
        let id = ConnectionId(2);
        let mailbox = Mailbox::unparked(id, &mut parked, session, received_at, Signals::PING);
        assert_eq!((mailbox.id, mailbox.session(), mailbox.received_at()), (id, session, received_at));
        let take = || mailbox.take_signals(&Context::from_waker(Waker::noop()));
        assert_eq!(take(), Signals::PING, "and no signal that was refused while parked");
        assert_eq!(take(), Signals::NONE);
        for code in CloseCode::ALL {
            assert_eq!(Signals::close(code).bits() & Handover::PARKED, 0);
        }
    }
}
