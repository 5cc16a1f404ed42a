//! The parts of an active connection.

use encke_base::parking::ParkBackoff;

use super::counted_socket::{CountedSocket, SendCounters};
use super::inbox::Inbox;
use super::park_timer::ParkTimer;
use super::pending_subscriptions::PendingSubscriptions;
use super::pending_write::PendingWrite;
use super::progress::{PingProgress, WriteHold};
use super::protocol::{End, Link, Protocol};
use super::socket::Socket;
use crate::client::Attachment;
use crate::session::Backlog;

/// A connection of a session, owned by its task.
pub(crate) struct Connection<S, P: Protocol<S>> {
    pub(super) socket: CountedSocket<S>,
    pub(crate) attachment: Attachment,
    pub(crate) protocol: P,
    pub(super) commands: P::Commands,
    pub(crate) out: PendingWrite,
    /// Seq of the ping at the end of `out`.
    pub(super) ping: Option<u64>,
    pub(super) ping_progress: PingProgress,
    pub(super) inbox: Inbox,
    pub(super) backlog: Backlog,
    /// Whether the client's held request must be answered, even if there are no messages.
    pub(crate) is_due: bool,
    pub(super) has_input: bool,
    /// Whether the client has resumed the session that it asked for.
    pub(crate) recovered: bool,
    /// Set until the session is subscribed to all channels that the request asked for. The client is greeted
    /// afterwards.
    pub(crate) subscriptions: Option<Box<PendingSubscriptions>>,
    pub(super) hold: WriteHold,
    pub(super) park_timer: ParkTimer,
    /// Backoff, which earlier requests on the socket may have increased.
    pub(crate) backoff: ParkBackoff,
    /// Reason to end the connection, found while commands were pending. It ends after their replies have been
    /// sent.
    pub(super) deferred_end: Option<End>,
}

/// A protocol whose connections are parked while they are idle.
pub(crate) trait Parkable<S>: Protocol<S> {
    /// Drops state that is not needed while the connection is parked.
    #[must_use]
    fn park(self) -> Self {
        self
    }

    /// Returns the future that the task of an unparked connection runs. No lock is held.
    fn run(connection: Connection<S, Self>) -> impl Future<Output: Send + 'static> + Send + 'static;
}

impl<S: Socket, P: Protocol<S>> Connection<S, P> {
    /// Creates a connection whose client was already greeted. `read` is input that was already read.
    pub(crate) fn new(socket: S, read: Vec<u8>, attachment: Attachment, protocol: P) -> Self {
        Self {
            socket: CountedSocket { socket, counters: SendCounters::default() },
            attachment,
            protocol,
            commands: P::Commands::default(),
            out: PendingWrite::default(),
            ping: None,
            ping_progress: PingProgress::default(),
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

    /// Detaches from the session. Returns the socket, the input that was not handled, the output that was
    /// not written, and the protocol.
    pub(crate) fn into_parts(self) -> (S, Vec<u8>, PendingWrite, P) {
        (self.socket.socket, self.inbox.into_bytes(), self.out, self.protocol)
    }

    /// Returns the protocol, and what it uses of the connection.
    pub(crate) fn split(&mut self) -> (&mut P, Link<'_, P::Commands>) {
        let Self { attachment, protocol, commands, out, backlog, is_due, has_input, .. } = self;
        (protocol, Link { attachment, commands, out, backlog, is_due, has_input })
    }
}
