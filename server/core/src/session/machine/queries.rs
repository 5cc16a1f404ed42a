//! Queries about the state of a session.

use super::{Phase, PingState, Session};
use crate::Timestamp;
use crate::session::{ConnectionId, Deadline, Outbox, SessionTimeouts};

impl<C> Session<C> {
    /// Returns the session's phase.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase_tag.with(self.connection)
    }

    /// Returns when to call [`Session::handle_timeout`] next, and the deadline that will be due.
    #[must_use]
    pub fn next_deadline(&self, timeouts: &SessionTimeouts) -> Option<(Timestamp, Deadline)> {
        if self.phase() == Phase::Moved {
            return None;
        }
        self.earliest(timeouts)
    }

    /// Whether a requested ping has not reached the kernel yet. [`Deadline::Pong`] is armed once it has.
    #[must_use]
    pub fn is_writing_ping(&self) -> bool {
        matches!(self.ping, PingState::Writing)
    }

    /// Whether no connection has been attached after this one.
    #[must_use]
    pub fn is_latest_connection(&self, connection: ConnectionId) -> bool {
        self.connection == connection
    }

    /// Whether a request is being held until there are messages, and its hold time has not elapsed.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        matches!(self.phase(), Phase::Attached(_)) && self.deadlines.client.is_some()
    }

    /// Iterates over the armed deadlines.
    pub fn deadlines(
        &self,
        timeouts: &SessionTimeouts,
    ) -> impl Iterator<Item = (Timestamp, Deadline)> + use<C> {
        self.armed(timeouts)
    }

    /// Returns the outbox: sent and pending messages.
    #[must_use]
    pub fn outbox(&self) -> &Outbox<C> {
        &self.outbox
    }

    /// Returns the outbox, for changing subscriptions and taking messages. After taking messages, the caller
    /// must report [`ConnectionInput::Sent`](crate::session::ConnectionInput::Sent).
    pub fn outbox_mut(&mut self) -> &mut Outbox<C> {
        &mut self.outbox
    }

    /// When the session was opened.
    #[must_use]
    pub fn opened_at(&self) -> Timestamp {
        self.opened_at
    }

    /// When something was last received from the client.
    #[must_use]
    pub fn last_received_at(&self) -> Timestamp {
        self.last_received_at
    }

    /// When the session lost its last connection or its last poll ended; `None` unless it is suspended.
    #[must_use]
    pub fn suspended_since(&self) -> Option<Timestamp> {
        matches!(self.phase(), Phase::Suspended).then_some(self.marked_at)
    }
}
