//! The driver for parked connections, which have no task. The thread that holds the session's lock acts for
//! them, and never blocks.

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use encke_base::parking::{ParkBackoff, ParkedSince};
use encke_core::Timestamp;

use super::active::{Connection, Parkable};
use super::counted_socket::{CountedSocket, SendCounters};
use super::socket::{ParkedSocket, Socket};
use crate::client::{Attachment, Services};
use crate::session::{
    DeliveryOutcome, Mailbox, ParkedConnection, ParkedMailbox, PendingWork, ReadOutcome, SessionCell,
    SessionOutbox,
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

/// Parks a connection. The calling task finishes afterwards.
pub(super) fn park<S: Socket, P: Parkable<S>>(connection: Connection<S, P>) {
    let Connection { socket, attachment, backoff, protocol, .. } = connection;
    let CountedSocket { socket, counters: written } = socket;
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
    let connection: TasklessConnection<S, P> = TasklessConnection {
        socket,
        is_registered: false,
        written,
        backoff,
        parked_since,
        mailbox: mailbox.to_parked(),
        services,
        protocol: protocol.park(),
    };
    sessions.lifecycle.park(&session, mailbox, Box::new(connection));
}

/// A connection without a task. It is boxed while parked.
struct TasklessConnection<S: Socket, P> {
    socket: S::Parked,
    /// Whether the socket is registered with a poller.
    is_registered: bool,
    written: SendCounters,
    backoff: ParkBackoff,
    parked_since: ParkedSince,
    mailbox: ParkedMailbox,
    services: Arc<Services>,
    protocol: P,
}

impl<S: Socket, P: Parkable<S>> TasklessConnection<S, P> {
    /// Whether the peer's kernel has acknowledged the last ping.
    fn has_ping_arrived(&self) -> bool {
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

    fn take_and_send(
        &mut self,
        session: &SessionCell,
        outbox: &mut SessionOutbox,
        out: &mut Vec<u8>,
    ) -> DeliveryOutcome {
        let mut published_at = None;
        for _ in 0..MAX_BATCHES_PER_DELIVERY {
            out.clear();
            let batch = self.protocol.take_batch(&self.services, session, outbox, out);
            published_at = batch.published_at.or(published_at);
            if !out.is_empty() {
                if let Err(unwritten) = self.send(out) {
                    return DeliveryOutcome::Partial(PendingWork {
                        unwritten,
                        published_at,
                        ..PendingWork::default()
                    });
                }
                if let Some(published_at) = published_at.take() {
                    self.services.delivered(P::TRANSPORT, published_at);
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

impl<S: Socket, P: Parkable<S>> ParkedConnection for TasklessConnection<S, P> {
    fn mailbox(&self) -> &ParkedMailbox {
        &self.mailbox
    }

    fn mailbox_mut(&mut self) -> &mut ParkedMailbox {
        &mut self.mailbox
    }

    fn watch(&mut self, session: &SessionCell) -> io::Result<()> {
        let Self { socket, is_registered, backoff, services, .. } = self;
        let parking = services.parking.as_ref().ok_or(ErrorKind::Unsupported)?;
        socket
            .register(&parking.poller, session.reference().to_u64())
            .inspect_err(|_| backoff.record_failure())?;
        *is_registered = true;
        Ok(())
    }

    fn is_alive(&self) -> bool {
        self.socket.has_unread_bytes() || P::PINGS_ARE_ACKNOWLEDGED && self.has_ping_arrived()
    }

    fn read(&mut self, session: &SessionCell, now: Timestamp) -> ReadOutcome {
        if self.protocol.next_input_at(session) > now {
            return ReadOutcome::Deferred;
        }
        INPUT.with_borrow_mut(|buffer| match self.socket.read(buffer) {
            // A parked connection has no partial message, so the end of the stream completes nothing.
            Ok(0) => ReadOutcome::Lost(ErrorKind::UnexpectedEof.into()),
            Ok(count) => match self.protocol.ping_answer(&buffer[..count]) {
                Some(input) => {
                    let limit = self.services.settings.frames_per_second;
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
            match self.send(out) {
                Ok(()) => {
                    self.written.ping_sent();
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
        let Self {
            mut socket, is_registered, written, mut backoff, parked_since, services, protocol, ..
        } = *self;
        services.metrics.connections.connection_unparked(P::TRANSPORT.into());
        let Some(parking) = &services.parking else { return };
        if is_registered {
            socket.deregister(&parking.poller, session.reference().to_u64());
            backoff.record_unpark(parked_since.elapsed(services.timeouts.clock().now()), parking.idle_time);
        } else {
            // The socket was never registered: parking failed or was cancelled.
            backoff.record_activity(parking.idle_time);
        }
        let (runtime, session) = (parking.runtime.clone(), services.sessions.table.clone_handle(session));
        let attachment = Attachment::unparked(session, mailbox, services, P::TRANSPORT, protocol.dialect());
        if let Some(error) = work.lost.take() {
            return attachment.log_failure(&error);
        }
        let _in_runtime = runtime.enter();
        match S::unpark(socket) {
            Ok(socket) => {
                let PendingWork { read, unwritten, published_at, ping, .. } = work;
                let mut connection = Connection::new(socket, read, attachment, protocol);
                (connection.socket.counters, connection.backoff, connection.ping) = (written, backoff, ping);
                connection.out = unwritten.into();
                connection.out.add_sample(published_at);
                runtime.spawn(P::run(connection));
            }
            Err(error) => attachment.log_socket_refused(&error),
        }
    }
}

impl<S: Socket, P> fmt::Debug for TasklessConnection<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TasklessConnection").field("socket", &self.socket).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) fn parked_size<S: Socket, P>() -> usize {
    size_of::<TasklessConnection<S, P>>()
}
