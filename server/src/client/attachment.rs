use std::sync::Arc;

use encke_core::close::SuspendReason;
use encke_core::dialect::DialectName;
use encke_core::session::ConnectionInput;

use super::{Context, Speaker};
use crate::session::{Attached, Backlog, Link, Outgoing, SessionHandle, Transport, Via};
use crate::timeouts::Sleep;
use crate::trace::Receipts;

/// A connection's hold on its session.
///
/// However the connection's task ends, even by a panic, the session learns that its connection is gone.
pub(crate) struct Attachment {
    pub(crate) session: SessionHandle,
    pub(crate) link: Arc<Link>,
    pub(crate) context: Arc<Context>,
    transport: Transport,
    dialect: DialectName,
    /// The connection goes on without its task.
    rests: bool,
}

impl Attachment {
    pub(crate) fn new(attached: Attached, context: Arc<Context>) -> Self {
        let Attached { session, link, transport, dialect, .. } = attached;
        context.metrics.connections.opened(transport.into(), dialect);
        Self { session, link, context, transport, dialect, rests: false }
    }

    /// The hold of a connection that has been at rest.
    pub(crate) fn woken(
        session: SessionHandle,
        link: Arc<Link>,
        context: Arc<Context>,
        transport: Transport,
        dialect: DialectName,
    ) -> Self {
        Self { session, link, context, transport, dialect, rests: false }
    }

    /// The connection goes to rest, and its session will not be told that it has ended.
    pub(crate) fn rest(mut self) -> Arc<Link> {
        self.rests = true;
        Arc::clone(&self.link)
    }

    /// Tells the session what happened to its connection. Returns whether the session is still attached to it.
    pub(crate) fn tell(&self, input: ConnectionInput) -> bool {
        self.context.sessions.handle_connection(&self.session, self.link.id, input)
    }

    /// The client that speaks over this connection.
    pub(crate) fn speaker(&self) -> Speaker<'_> {
        Speaker { session: &self.session, context: &self.context, via: Via::connection(&self.link) }
    }

    /// What its client has to wait for, if its frames and requests have come too fast.
    pub(crate) fn pause(&self) -> Option<Sleep> {
        self.context.pause(&self.session)
    }

    /// Its client has sent one more.
    pub(crate) fn count_frame(&self) {
        self.context.count_frames(&self.session, 1);
    }

    /// The connection has failed. It is logged, no more.
    pub(crate) fn failed(&self, error: &dyn std::fmt::Display) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            let (session, identity) = (self.session.id(), self.session.identity());
            tracing::debug!(%session, user = identity.user(), %error, "connection failed");
        }
    }

    /// The connection is cut, for no fault of its client's: the system refuses its socket, on its way to rest or back.
    pub(crate) fn given_up(&self, error: &dyn std::fmt::Display) {
        tracing::warn!(session = %self.session.id(), %error, "a connection was cut: the system refused its socket");
    }

    /// Takes a share of what the session has for this connection, with the receipts for it.
    pub(crate) fn take_outgoing(&self, out: &mut impl Outgoing) -> (Backlog, Receipts) {
        self.context.sessions.take_outgoing(&self.session, &self.link, out)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if self.rests {
            return;
        }
        // Nothing happens if it knows already.
        self.tell(ConnectionInput::Ended(SuspendReason::ConnectionLost));
        // Between two polls a session keeps its place for the next.
        if !self.session.is_between_polls(&self.link) {
            self.link.take_permit();
        }
        self.link.forget_task();
        self.context.metrics.connections.closed(self.transport.into(), self.dialect);
    }
}
