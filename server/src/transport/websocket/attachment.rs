use std::sync::Arc;

use encke_core::close::SuspendReason;
use encke_core::session::ConnectionInput;

use crate::server::Shared;
use crate::session::{Attached, Link, SessionCell, Transport};
use crate::transport::Place;

/// A connection's hold on its session.
///
/// However the connection's task ends, also by a panic, the session learns that its connection is gone.
pub(super) struct Attachment {
    pub(super) session: Arc<SessionCell>,
    pub(super) link: Arc<Link>,
    pub(super) shared: Arc<Shared>,
    _place: Place,
}

impl Attachment {
    pub(super) fn new(attached: Attached, place: Place, shared: Arc<Shared>) -> Self {
        shared.metrics.connections(Transport::WebSocket).inc();
        Self { session: attached.session, link: attached.link, shared, _place: place }
    }

    /// Tells the session what happened to its connection. Returns whether it is this one's still.
    pub(super) fn tell(&self, input: ConnectionInput) -> bool {
        self.shared.sessions.handle_connection(&self.session, &self.link, input)
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        // Nothing happens if it knows already.
        self.tell(ConnectionInput::Ended(SuspendReason::ConnectionLost));
        self.shared.metrics.connections(Transport::WebSocket).dec();
    }
}
