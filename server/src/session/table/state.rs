use std::net::IpAddr;
use std::sync::Arc;

use encke_core::Timestamp;
use encke_core::session::outbox::SubscriptionSlot;
use encke_core::session::{ConnectionId, Phase};
use encke_timeouts::clock::{Clock, UnixTime};

use super::cell::{ParkedConnection, SessionCell, SessionState};
use super::mailbox::Mailbox;
use super::pending_work::PendingWork;
use super::signals::Signals;
use crate::admission::Permit;
use crate::session::channels::SubscribedChannel;
use crate::session::session_ref::SessionRef;

/// A connection that was just unparked and whose task has not started yet.
#[derive(Debug)]
#[must_use]
pub(crate) struct Unparked {
    connection: Box<dyn ParkedConnection>,
    pub(crate) mailbox: Arc<Mailbox>,
    work: PendingWork,
}

impl Unparked {
    /// Starts the connection's task, if a connection was unparked. Called without holding locks.
    pub(crate) fn start(unparked: Option<Self>, session: &SessionCell) {
        if let Some(Self { connection, mailbox, work }) = unparked {
            connection.unpark(session, mailbox, work);
        }
    }
}

impl SessionState {
    pub(crate) fn is_attached_to(&self, connection: ConnectionId) -> bool {
        self.machine.phase() == Phase::Attached(connection)
    }

    /// Returns the client's address, if the session has a connection or is between polls.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        let address = self.mailbox.as_ref().map(|mailbox| mailbox.address());
        address.or_else(|| self.parked_address())
    }

    /// Returns the address of the parked connection, if there is one.
    pub(crate) fn parked_address(&self) -> Option<IpAddr> {
        self.parked.as_ref().map(|parked| parked.mailbox().address())
    }

    /// Whether the session's connection has a permit.
    pub(crate) fn has_permit(&self) -> bool {
        self.mailbox.as_ref().is_some_and(|mailbox| mailbox.has_permit())
            || self.parked.as_ref().is_some_and(|parked| parked.mailbox().has_permit())
    }

    /// Takes the permit of the session's connection.
    pub(crate) fn take_permit(&mut self) -> Option<Permit> {
        let from_task = self.mailbox.as_ref().and_then(|mailbox| mailbox.take_permit());
        from_task.or_else(|| self.parked.as_mut()?.mailbox_mut().take_permit())
    }

    /// Passes the token's expiry to the state machine. Called before every step, because the wall clock may
    /// have been set.
    pub(crate) fn sync_token_expiry(&mut self, clock: &Clock, now: Timestamp) {
        if let Some(expires) = self.identity.expires() {
            self.machine.token_expires(token_deadline(expires, clock, now));
        }
    }

    /// Passes the time of the connection's last input to the state machine. Called before every step, because
    /// the machine's decisions depend on it. Input of a parked connection is reported when it is read.
    pub(crate) fn sync_last_received(&mut self) {
        if let Some(mailbox) = &self.mailbox {
            self.machine.received(mailbox.received_at());
        }
    }

    /// Returns the subscription to a channel.
    pub(crate) fn find(&self, name: &str) -> Option<(SubscriptionSlot, &SubscribedChannel)> {
        let mut subscriptions = self.machine.outbox().subscriptions();
        let found =
            subscriptions.find(|subscription| subscription.channel.channel.name().as_str() == name)?;
        Some((found.slot, found.channel))
    }

    /// Returns the parked connection that the session is attached to. A step that releases the connection
    /// also unparks it.
    pub(crate) fn parked_connection(&mut self) -> Option<(ConnectionId, &mut Box<dyn ParkedConnection>)> {
        let Phase::Attached(id) = self.machine.phase() else { return None };
        Some((id, self.parked.as_mut()?))
    }

    /// Unparks connection `id`. Its task starts with `signals` pending.
    pub(crate) fn unpark(
        &mut self,
        id: ConnectionId,
        session: SessionRef,
        signals: Signals,
        work: PendingWork,
    ) -> Option<Unparked> {
        let mut connection = self.parked.take()?;
        let received_at = self.machine.last_received_at();
        let mailbox =
            Arc::new(Mailbox::unparked(id, connection.mailbox_mut(), session, received_at, signals));
        // Skip this if the session has released the connection, or another connection has taken over the
        // session.
        if self.mailbox.is_none() && self.machine.phase().has_client() {
            self.mailbox = Some(Arc::clone(&mailbox));
        }
        Some(Unparked { connection, mailbox, work })
    }
}

/// Converts the expiry of a token to the server's clock, using the current wall clock.
pub(crate) fn token_deadline(expires: UnixTime, clock: &Clock, now: Timestamp) -> Timestamp {
    now + expires.since(clock.unix_now())
}
