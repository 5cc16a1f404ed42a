use std::sync::Arc;

use encke_core::close::SuspendReason;
use encke_core::session::ConnectionInput;

use crate::server::Shared;
use crate::session::{Attached, Left, Link, Outgoing, SessionCell, Transport};

/// A connection's hold on its session.
///
/// However the connection's task ends, also by a panic, the session learns that its connection is gone.
pub(super) struct Attachment {
    pub(super) session: Arc<SessionCell>,
    pub(super) link: Arc<Link>,
    pub(super) shared: Arc<Shared>,
    transport: Transport,
}

impl Attachment {
    pub(super) fn new(attached: Attached, transport: Transport, shared: Arc<Shared>) -> Self {
        shared.metrics.connections(transport).inc();
        Self { session: attached.session, link: attached.link, shared, transport }
    }

    /// Tells the session what happened to its connection. Returns whether it is this one's still.
    pub(super) fn tell(&self, input: ConnectionInput) -> bool {
        self.shared.sessions.handle_connection(&self.session, &self.link, input)
    }

    /// Takes a share of what the session is to be sent.
    pub(super) fn take_outgoing(&self, out: &mut impl Outgoing) -> Left {
        self.shared.sessions.take_outgoing(&self.session, &self.link, out)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // Nothing happens if it knows already.
        self.tell(ConnectionInput::Ended(SuspendReason::ConnectionLost));
        self.link.leave();
        self.shared.metrics.connections(self.transport).dec();
    }
}
