use std::sync::Arc;

use encke_core::Timestamp;
use encke_core::close::SuspendReason;
use encke_core::dialect::DialectName;
use encke_core::session::ConnectionInput;

use super::{PartialMessageSender, Services};
use crate::admission::PartialMessage;
use crate::session::{Attached, Mailbox, SessionHandle, Transport};

/// Guard of a connection's attachment to its session.
///
/// However the connection's task ends, even if it panics, the session is notified that the connection has
/// ended.
pub(crate) struct Attachment {
    pub(crate) session: SessionHandle,
    pub(crate) mailbox: Arc<Mailbox>,
    pub(crate) services: Arc<Services>,
    transport: Transport,
    dialect: DialectName,
    /// Whether the connection is being parked, which means that it continues without its task.
    is_parking: bool,
}

impl Attachment {
    pub(crate) fn new(attached: Attached, services: Arc<Services>) -> Self {
        let Attached { session, mailbox, transport, dialect, .. } = attached;
        services.metrics.connections.opened(transport.into(), dialect);
        Self { session, mailbox, services, transport, dialect, is_parking: false }
    }

    /// Creates the attachment of an unparked connection.
    pub(crate) fn unparked(
        session: SessionHandle,
        mailbox: Arc<Mailbox>,
        services: Arc<Services>,
        transport: Transport,
        dialect: DialectName,
    ) -> Self {
        Self { session, mailbox, services, transport, dialect, is_parking: false }
    }

    /// Ends the attachment of a connection that is being parked. The session is not notified that the
    /// connection has ended.
    pub(crate) fn park(mut self) -> Arc<Mailbox> {
        self.is_parking = true;
        Arc::clone(&self.mailbox)
    }

    /// Notifies the session of an event on its connection. Returns whether the session is still attached to
    /// this connection.
    pub(crate) fn notify_session(&self, input: ConnectionInput) -> bool {
        self.services.sessions.lifecycle.handle_connection(&self.session, self.mailbox.id, input)
    }

    /// Records that bytes have arrived from the peer.
    pub(crate) fn note_received(&self) {
        self.mailbox.received(self.services.timeouts.clock().now());
    }

    /// Reports how much memory the peer's partial messages take. If all connections together exceed the
    /// limit, one of them is closed.
    pub(crate) fn account_partial_message(
        &self,
        account: &mut Option<PartialMessage<PartialMessageSender>>,
        bytes: usize,
    ) {
        let Self { mailbox, services, .. } = self;
        let now = mailbox.received_at();
        let account = account.get_or_insert_with(|| {
            let sender = PartialMessageSender::Connection(Arc::clone(mailbox));
            services.limits.partial_messages.begin(sender, mailbox.address(), now)
        });
        services.account_partial_message(account, bytes, now);
    }

    /// Logs that the connection has failed.
    pub(crate) fn log_failure(&self, error: &dyn std::fmt::Display) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            let (session, identity) = (self.session.id(), self.session.identity());
            tracing::debug!(%session, user = identity.user(), %error, "connection failed");
        }
    }

    /// Logs that the connection is closed through no fault of its client, because the system refused its
    /// socket when the connection was parked or unparked.
    pub(crate) fn log_socket_refused(&self, error: &dyn std::fmt::Display) {
        tracing::warn!(session = %self.session.id(), %error, "connection closed: the system refused its socket");
    }

    /// Records the delivery time of a sampled message, if there is one, once the kernel has accepted its last
    /// byte.
    #[inline]
    pub(crate) fn delivered(&self, published_at: Option<Timestamp>) {
        if let Some(published_at) = published_at {
            self.services.delivered(self.transport, published_at);
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if self.is_parking {
            return;
        }
        // This has no effect if the session has already been notified.
        self.notify_session(ConnectionInput::Ended(SuspendReason::ConnectionLost));
        // Between polls, a session keeps its permit for the next poll.
        if !self.session.is_between_polls(&self.mailbox) {
            self.mailbox.take_permit();
        }
        self.mailbox.clear_waker();
        self.services.metrics.connections.closed(self.transport.into(), self.dialect);
    }
}
