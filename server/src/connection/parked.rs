//! The driver for parked connections, which have no task. The thread that holds the session's lock acts for
//! them, and never blocks.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use encke_core::Timestamp;

use super::counted_socket::{CountedSocket, SendCounters};
use super::pending_write::PendingWrite;
use super::protocol::Protocol;
use super::socket::{ParkedSocket, Socket};
use super::task::Connection;
use crate::client::{Attachment, Services};
use crate::parking::{ParkBackoff, ParkedSince};
use crate::session::{
    DeliveryOutcome, Mailbox, ParkedConnection, ParkedMailbox, PendingWork, ReadOutcome, SessionCell,
    SessionOutbox, Sessions,
};

/// Number of bytes read at a time: enough for a pong, or for the start of input that the connection's task
/// will handle.
const READ_BYTES: usize = 512;

/// Maximum number of batches sent to a parked connection at a time. If more messages are pending, the
/// connection is unparked, since a task yields to other tasks.
const MAX_BATCHES_PER_DELIVERY: usize = 4;

/// Maximum capacity of a thread's output buffer between deliveries.
const MAX_RETAINED_BYTES: usize = 64 * 1024;

thread_local! {
    /// Scratch buffer for output. No data is kept between uses.
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };

    /// Scratch buffer for input. It is not cleared between uses: for a pong, clearing would cost more than
    /// reading.
    static INPUT: RefCell<[u8; READ_BYTES]> = const { RefCell::new([0; READ_BYTES]) };
}

/// Parts common to the connections of all transports, passed on when a connection is parked or unparked.
pub(super) struct ConnectionParts<S> {
    pub(super) socket: S,
    pub(super) written: SendCounters,
    pub(super) attachment: Attachment,
    pub(super) backoff: ParkBackoff,
}

impl<S: Socket> ConnectionParts<S> {
    pub(super) fn new(socket: CountedSocket<S>, attachment: Attachment, backoff: ParkBackoff) -> Self {
        let written = socket.written();
        Self { socket: socket.into_inner(), written, attachment, backoff }
    }

    /// Restores the active socket, and returns it with the other parts.
    pub(super) fn into_parts(self) -> (CountedSocket<S>, Attachment, ParkBackoff) {
        let Self { socket, written, attachment, backoff } = self;
        (CountedSocket::new(socket, written), attachment, backoff)
    }
}

/// Parks a connection. The calling task finishes afterwards.
pub(super) fn park<S: Socket, P: Protocol<S>>(connection: Connection<S, P>) {
    let (parts, protocol) = connection.into_parked_parts();
    let ConnectionParts { socket, written, attachment, backoff } = parts;
    let socket = match socket.park() {
        Ok(socket) => socket,
        // Notify the session as for any other connection failure.
        Err(error) => return attachment.log_socket_refused(&error),
    };
    let (session, services) = (attachment.session.clone(), Arc::clone(&attachment.services));
    let sessions = Arc::clone(&services.sessions);
    let parked_since = ParkedSince::at(services.timeouts.clock().now());
    services.metrics.connections.connection_parked(P::TRANSPORT.into());
    let mailbox = attachment.park();
    let socket = ParkedState {
        socket,
        is_registered: false,
        written,
        backoff,
        parked_since,
        mailbox: mailbox.to_parked(),
        services,
    };
    sessions.park(&session, mailbox, Box::new(TasklessConnection::<S, P> { socket, protocol }));
}

/// Socket of a parked connection, and the state that does not depend on its transport.
pub(super) struct ParkedState<S> {
    socket: S,
    /// Whether the socket is registered with a poller.
    is_registered: bool,
    written: SendCounters,
    backoff: ParkBackoff,
    parked_since: ParkedSince,
    mailbox: ParkedMailbox,
    services: Arc<Services>,
}

impl<S: ParkedSocket> ParkedState<S> {
    /// Whether the peer's kernel has acknowledged the last ping.
    pub(super) fn has_ping_arrived(&self) -> bool {
        self.socket
            .unacknowledged()
            .is_ok_and(|unacknowledged| self.written.has_ping_arrived(unacknowledged.bytes))
    }

    /// Writes `bytes` to the socket. Returns the bytes that the kernel did not accept: all of them if the
    /// connection has failed, which its task will notice.
    fn send(&mut self, bytes: &[u8]) -> Result<(), Vec<u8>> {
        let taken = loop {
            match self.socket.write(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                taken => break taken.unwrap_or(0),
            }
        };
        self.written.note_sent(taken);
        if taken == bytes.len() { Ok(()) } else { Err(bytes[taken..].to_vec()) }
    }
}

/// A connection without a task. It is boxed while parked.
struct TasklessConnection<S: Socket, P> {
    socket: ParkedState<S::Parked>,
    protocol: P,
}

impl<S: Socket, P: Protocol<S>> TasklessConnection<S, P> {
    fn take_and_send(
        &mut self,
        session: &SessionCell,
        outbox: &mut SessionOutbox,
        out: &mut Vec<u8>,
    ) -> DeliveryOutcome {
        let mut published_at = None;
        for _ in 0..MAX_BATCHES_PER_DELIVERY {
            out.clear();
            let batch = self.protocol.take_batch(&self.socket.services, session, outbox, out);
            published_at = batch.published_at.or(published_at);
            if !out.is_empty() {
                if let Err(unwritten) = self.socket.send(out) {
                    return DeliveryOutcome::Partial(PendingWork {
                        unwritten,
                        published_at,
                        ..PendingWork::default()
                    });
                }
                if let Some(published_at) = published_at.take() {
                    self.socket.services.delivered(P::TRANSPORT, published_at);
                }
            }
            // Stop if this batch has left the dialect in a state in which the remaining messages require a
            // task.
            if !self.protocol.can_send_while_parked() {
                break;
            }
            if !batch.backlog.has_more {
                return if batch.needs_sent_notification {
                    DeliveryOutcome::NeedsAcknowledgement
                } else {
                    DeliveryOutcome::Complete
                };
            }
        }
        DeliveryOutcome::Partial(PendingWork { published_at, ..PendingWork::default() })
    }
}

impl<S: Socket, P: Protocol<S>> ParkedConnection for TasklessConnection<S, P> {
    fn mailbox(&self) -> &ParkedMailbox {
        &self.socket.mailbox
    }

    fn mailbox_mut(&mut self) -> &mut ParkedMailbox {
        &mut self.socket.mailbox
    }

    fn sessions(&self) -> &Arc<Sessions> {
        &self.socket.services.sessions
    }

    fn watch(&mut self, session: &SessionCell) -> io::Result<()> {
        let ParkedState { socket, is_registered, backoff, services, .. } = &mut self.socket;
        let parking = services.parking.as_ref().ok_or(ErrorKind::Unsupported)?;
        socket
            .register(&parking.poller, session.reference().to_u64())
            .inspect_err(|_| backoff.record_failure())?;
        *is_registered = true;
        Ok(())
    }

    fn is_alive(&self) -> bool {
        self.socket.socket.has_unread_bytes() || P::PINGS_ARE_ACKNOWLEDGED && self.socket.has_ping_arrived()
    }

    fn read(&mut self, session: &SessionCell, now: Timestamp) -> ReadOutcome {
        if self.protocol.next_input_at(session) > now {
            return ReadOutcome::Deferred;
        }
        INPUT.with_borrow_mut(|buffer| match self.socket.socket.read(buffer) {
            // A parked connection has no partial message, so the end of the stream completes nothing.
            Ok(0) => ReadOutcome::Lost(ErrorKind::UnexpectedEof.into()),
            Ok(count) => match self.protocol.ping_answer(&buffer[..count]) {
                Some(input) => {
                    let limit = self.socket.services.settings.frames_per_second;
                    session.frames.count_input(1, limit, now);
                    ReadOutcome::Pong(input)
                }
                None => {
                    let read = buffer[..count].to_vec();
                    ReadOutcome::NeedsTask(PendingWork { read, ..PendingWork::default() })
                }
            },
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                ReadOutcome::Nothing
            }
            Err(error) => ReadOutcome::Lost(error),
        })
    }

    fn write_ping(&mut self, sent: u64) -> Result<u64, PendingWork> {
        OUTPUT.with_borrow_mut(|out| {
            out.clear();
            let seq = self.protocol.write_ping(sent, out);
            match self.socket.send(out) {
                Ok(()) => {
                    self.socket.written.ping_sent();
                    Ok(seq)
                }
                Err(unwritten) => Err(PendingWork { unwritten, ping: Some(seq), ..PendingWork::default() }),
            }
        })
    }

    fn deliver(&mut self, session: &SessionCell, outbox: &mut SessionOutbox) -> DeliveryOutcome {
        if !self.protocol.can_send_while_parked() {
            return DeliveryOutcome::Partial(PendingWork::default());
        }
        OUTPUT.with_borrow_mut(|out| {
            let delivered = self.take_and_send(session, outbox, out);
            out.clear();
            out.shrink_to(MAX_RETAINED_BYTES);
            delivered
        })
    }

    fn unpark(self: Box<Self>, session: &SessionCell, mailbox: Arc<Mailbox>, mut work: PendingWork) {
        let Self { socket, protocol } = *self;
        let ParkedState { mut socket, is_registered, written, mut backoff, parked_since, services, .. } =
            socket;
        services.metrics.connections.connection_unparked(P::TRANSPORT.into());
        let Some(parking) = &services.parking else { return };
        if is_registered {
            socket.deregister(&parking.poller, session.reference().to_u64());
            backoff.record_unpark(parked_since.elapsed(services.timeouts.clock().now()), parking.idle_time);
        } else {
            // The socket was never registered: parking failed or was cancelled.
            backoff.record_activity(parking.idle_time);
        }
        let (runtime, session) = (parking.runtime.clone(), services.sessions.clone_handle(session));
        let attachment = Attachment::unparked(session, mailbox, services, P::TRANSPORT, protocol.dialect());
        if let Some(error) = work.lost.take() {
            return attachment.log_failure(&error);
        }
        let _in_runtime = runtime.enter();
        match S::unpark(socket) {
            Ok(socket) => {
                let PendingWork { read, unwritten, published_at, ping, .. } = work;
                let parts = ConnectionParts { socket, written, attachment, backoff };
                let out = PendingWrite::from_parked(unwritten, published_at);
                let connection = Connection::unparked(parts, protocol, read).sending(out).pinging(ping);
                runtime.spawn(P::run(connection));
            }
            Err(error) => attachment.log_socket_refused(&error),
        }
    }
}

impl<S: Socket, P> fmt::Debug for TasklessConnection<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TasklessConnection").field("socket", &self.socket.socket).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) fn parked_size<S: Socket, P>() -> usize {
    size_of::<TasklessConnection<S, P>>()
}
