//! The parts of an active connection.

use super::counted_socket::{CountedSocket, SendCounters};
use super::inbox::Inbox;
use super::park_timer::ParkTimer;
use super::pending_subscriptions::PendingSubscriptions;
use super::pending_write::PendingWrite;
use super::protocol::{End, Link, Protocol};
use super::socket::Socket;
use super::write_hold::WriteHold;
use crate::client::Attachment;
use crate::parking::ParkBackoff;
use crate::session::Backlog;

/// A connection of a session, owned by its task.
pub(crate) struct Connection<S, P: Protocol<S>> {
    pub(super) socket: CountedSocket<S>,
    pub(super) attachment: Attachment,
    pub(super) protocol: P,
    pub(super) commands: P::Commands,
    pub(super) out: PendingWrite,
    /// Seq of the ping at the end of `out`.
    pub(super) ping: Option<u64>,
    pub(super) inbox: Inbox,
    pub(super) backlog: Backlog,
    pub(super) is_due: bool,
    pub(super) has_input: bool,
    /// Whether the client has resumed the session that it asked for.
    pub(super) recovered: bool,
    /// Set until the session is subscribed to all channels that the request asked for. The client is greeted
    /// afterwards.
    pub(super) subscriptions: Option<Box<PendingSubscriptions>>,
    pub(super) hold: WriteHold,
    pub(super) park_timer: ParkTimer,
    pub(super) backoff: ParkBackoff,
    /// Reason to end the connection, found while commands were pending. It ends after their replies have been
    /// sent.
    pub(super) deferred_end: Option<End>,
}

impl<S: Socket, P: Protocol<S>> Connection<S, P> {
    /// Creates a connection whose client was already greeted. `read` is input that was already read.
    pub(crate) fn new(socket: S, read: Vec<u8>, attachment: Attachment, protocol: P) -> Self {
        let socket = CountedSocket::new(socket, SendCounters::default());
        Self::on(socket, attachment, protocol, read)
    }

    /// Does the same for a socket on which bytes may have been sent before.
    pub(super) fn on(socket: CountedSocket<S>, attachment: Attachment, protocol: P, read: Vec<u8>) -> Self {
        Self {
            socket,
            attachment,
            protocol,
            commands: P::Commands::default(),
            out: PendingWrite::default(),
            ping: None,
            inbox: Inbox::new(read),
            // There may be messages to retransmit.
            backlog: Backlog { has_more: true, awaits_ack: false },
            is_due: false,
            has_input: false,
            recovered: true,
            subscriptions: None,
            hold: WriteHold::default(),
            park_timer: ParkTimer::default(),
            backoff: ParkBackoff::default(),
            deferred_end: None,
        }
    }

    /// Sets the first output.
    #[must_use]
    pub(crate) fn sending(self, out: PendingWrite) -> Self {
        Self { out, ..self }
    }

    /// Makes the connection send a ping that was not completely written while it was parked.
    pub(super) fn pinging(self, ping: Option<u64>) -> Self {
        Self { ping, ..self }
    }

    /// Makes the connection subscribe to channels before its client is greeted.
    #[must_use]
    pub(crate) fn subscribing(self, channels: Option<Box<PendingSubscriptions>>, recovered: bool) -> Self {
        Self { subscriptions: channels, recovered, ..self }
    }

    /// Makes the connection answer its client's held request even if there are no messages.
    #[must_use]
    pub(crate) fn answering(self, is_due: bool) -> Self {
        Self { is_due, ..self }
    }

    /// Sets the backoff carried over from earlier requests on the socket.
    #[must_use]
    pub(crate) fn with_backoff(self, backoff: ParkBackoff) -> Self {
        Self { backoff, ..self }
    }

    pub(crate) fn attachment(&self) -> &Attachment {
        &self.attachment
    }

    pub(crate) fn protocol(&self) -> &P {
        &self.protocol
    }

    pub(crate) fn backoff(&self) -> ParkBackoff {
        self.backoff
    }

    /// Detaches from the session. Returns the socket, the input that was not handled, the output that was
    /// not written, and the protocol.
    pub(crate) fn into_parts(self) -> (S, Vec<u8>, PendingWrite, P) {
        (self.socket.into_inner(), self.inbox.into_bytes(), self.out, self.protocol)
    }

    /// Drops everything that a parked connection does not need.
    pub(super) fn into_parked_parts(self) -> (CountedSocket<S>, Attachment, ParkBackoff, P) {
        (self.socket, self.attachment, self.backoff, self.protocol.park())
    }

    /// Returns the protocol, and what it uses of the connection.
    pub(crate) fn split(&mut self) -> (&mut P, Link<'_, P::Commands>) {
        let Self { attachment, protocol, commands, out, backlog, is_due, has_input, .. } = self;
        (protocol, Link { attachment, commands, out, backlog, is_due, has_input })
    }
}
