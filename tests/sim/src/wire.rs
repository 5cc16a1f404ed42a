//! A connection: the kernels of its two ends, and the bytes in transit.
//!
//! Each direction has two bounded buffers: the sender's send buffer, and the receiver's receive buffer. The
//! scheduler decides when bytes move from one to the other.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use encke_server::testing::simulation::SimulatedSocket;
use encke_sys::Unacknowledged;
use parking_lot::{Mutex, MutexGuard};

use crate::schedule::{ConnectionNumber, Direction};

/// Clocks used by the simulated kernels.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    /// Monotonic clock, in nanoseconds.
    pub(crate) monotonic: AtomicU64,
    /// The server's clock, in nanoseconds.
    pub(crate) served: AtomicU64,
}

/// Connections whose state has changed, for the scheduler.
pub(crate) type ChangedConnections = Arc<Mutex<Vec<ConnectionNumber>>>;

/// Changes of parked connections, until the scheduler takes them.
#[derive(Debug, Default)]
pub(crate) struct ParkedChanges {
    /// Connection that the server has just unparked. The next task that it spawns serves this connection.
    pub(crate) woken: Option<ConnectionNumber>,
    /// Connections that ended while parked.
    pub(crate) ended: Vec<ConnectionNumber>,
}

/// One direction of a connection.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// Bytes in the sender's send buffer, not yet acknowledged by the receiver.
    sent: VecDeque<u8>,
    /// Bytes in the receiver's receive buffer.
    arrived: VecDeque<u8>,
    send_limit: usize,
    receive_limit: usize,
    /// Whether the sender has ended its stream.
    ended: bool,
    /// Whether the end of the stream has reached the receiver's kernel.
    end_arrived: bool,
}

impl Pipe {
    fn new(send_limit: usize, receive_limit: usize) -> Self {
        Self {
            sent: VecDeque::new(),
            arrived: VecDeque::new(),
            send_limit,
            receive_limit,
            ended: false,
            end_arrived: false,
        }
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.send_limit - self.sent.len());
        self.sent.extend(&bytes[..taken]);
        taken
    }

    fn is_writable(&self) -> bool {
        // As on Linux, a socket is writable if at least a third of its send buffer is free.
        self.sent.len() * 3 <= self.send_limit * 2
    }

    /// Returns whether the receive buffer has free space.
    fn has_room(&self) -> bool {
        self.arrived.len() < self.receive_limit
    }

    /// Returns whether bytes, or the end of the stream, can move now.
    fn can_move(&self) -> bool {
        let bytes = !self.sent.is_empty() && self.has_room();
        bytes || (self.sent.is_empty() && self.ended && !self.end_arrived)
    }
}

/// Recent acknowledgements: the time by the server's clock, and the number of bytes. Covers the period that
/// the checks need.
#[derive(Debug, Default)]
pub(crate) struct Acknowledged(VecDeque<(u64, usize)>);

impl Acknowledged {
    const REMEMBERED: usize = 4_096;

    fn add(&mut self, at: u64, bytes: usize) {
        match self.0.back_mut() {
            Some((last, sum)) if *last == at => *sum += bytes,
            _ => self.0.push_back((at, bytes)),
        }
        if self.0.len() > Self::REMEMBERED {
            self.0.pop_front();
        }
    }

    /// Returns the number of bytes acknowledged after `time`.
    pub(crate) fn after(&self, time: u64) -> usize {
        self.0.iter().rev().take_while(|(at, _)| *at > time).map(|(_, bytes)| bytes).sum()
    }
}

/// A connection, with the kernels of both ends.
#[derive(Debug)]
pub(crate) struct Wire {
    number: ConnectionNumber,
    pub(crate) to_server: Pipe,
    pub(crate) to_client: Pipe,
    /// Error returned by the server's calls, if any.
    failed: Option<io::ErrorKind>,
    /// Whether the client sees a reset.
    pub(crate) reset_for_client: bool,
    /// When the client vanished, by the server's clock. No bytes move after that.
    pub(crate) vanished_at: Option<u64>,
    /// Whether the server has closed its socket.
    pub(crate) server_gone: bool,
    /// Whether some bytes were not acknowledged by the client's kernel when the server closed its socket.
    pub(crate) was_given_up: bool,
    /// Whether the client has closed its socket.
    client_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// When the client's kernel last acknowledged bytes, by the monotonic clock.
    last_acknowledged: u64,
    pub(crate) acknowledged: Acknowledged,
    /// When bytes last arrived at the server's kernel, by the server's clock.
    pub(crate) last_arrival: u64,
    /// When the server last wrote, by its clock.
    pub(crate) written_at: Option<u64>,
    /// All bytes written by the server, if recorded.
    written: Option<Vec<u8>>,
    /// Whether the server's end is parked: no task owns it.
    pub(crate) is_parked: bool,
    clocks: Arc<Clocks>,
    changed: ChangedConnections,
    parked_changes: Arc<Mutex<ParkedChanges>>,
}

impl Wire {
    fn wake_reader(&mut self) {
        if let Some(waker) = self.reader.take() {
            waker.wake();
        }
    }

    fn wake_writer(&mut self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }

    fn notify(&self) {
        self.changed.lock().push(self.number);
    }

    fn fail(&mut self, kind: io::ErrorKind) {
        self.failed = Some(kind);
        for pipe in [&mut self.to_server, &mut self.to_client] {
            pipe.sent.clear();
        }
        self.to_server.arrived.clear();
        self.wake_reader();
        self.wake_writer();
    }

    /// Moves at most `at_most` bytes. Returns their number.
    pub(crate) fn carry(&mut self, direction: Direction, at_most: usize) -> usize {
        if self.is_dead() || self.failed.is_some() {
            return 0;
        }
        let pipe = self.pipe_mut(direction);
        let moved = pipe.sent.len().min(pipe.receive_limit - pipe.arrived.len()).min(at_most);
        pipe.arrived.extend(pipe.sent.drain(..moved));
        if pipe.sent.is_empty() && pipe.ended {
            pipe.end_arrived = true;
        }
        match direction {
            Direction::ToServer => self.carried_to_server(moved),
            Direction::ToClient => {
                if moved > 0 {
                    self.last_acknowledged = self.clocks.monotonic.load(Ordering::Relaxed);
                    self.acknowledged.add(self.clocks.served.load(Ordering::Relaxed), moved);
                }
                if self.to_client.is_writable() {
                    self.wake_writer();
                }
            }
        }
        moved
    }

    fn carried_to_server(&mut self, moved: usize) {
        if moved > 0 {
            self.last_arrival = self.clocks.served.load(Ordering::Relaxed);
        }
        if self.server_gone && moved > 0 {
            // The server can no longer read these bytes, so its kernel sends a reset.
            self.reset_for_client = true;
        }
        self.wake_reader();
    }

    fn pipe_mut(&mut self, direction: Direction) -> &mut Pipe {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    /// Returns whether bytes, or the end of the stream, can move in this direction now.
    pub(crate) fn can_move(&self, direction: Direction) -> bool {
        let pipe = match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        };
        !self.is_dead() && self.failed.is_none() && pipe.can_move()
    }

    /// Moves as many of the client's bytes as fit into its send buffer.
    pub(crate) fn client_sends(&mut self, bytes: &mut VecDeque<u8>) {
        let (first, _) = bytes.as_slices();
        let taken = if self.to_server.ended { first.len() } else { self.to_server.send(first) };
        bytes.drain(..taken);
        if !bytes.is_empty() && taken > 0 {
            self.client_sends(bytes);
        }
    }

    /// Reads at most `at_most` bytes for the client.
    pub(crate) fn client_reads(&mut self, at_most: usize, into: &mut Vec<u8>) {
        let count = self.to_client.arrived.len().min(at_most);
        into.extend(self.to_client.arrived.drain(..count));
    }

    /// Returns whether the client has read everything and the server's stream has ended.
    pub(crate) fn is_read_out(&self) -> bool {
        self.to_client.arrived.is_empty() && (self.to_client.end_arrived || self.reset_for_client)
    }

    pub(crate) fn has_unread(&self) -> bool {
        !self.to_client.arrived.is_empty()
    }

    /// Ends the client's stream. The client may still read.
    pub(crate) fn client_ends(&mut self) {
        self.to_server.ended = true;
    }

    /// Resets the connection. Both ends notice at their next call.
    pub(crate) fn reset(&mut self) {
        if self.failed.is_none() && !self.is_dead() {
            self.fail(io::ErrorKind::ConnectionReset);
        }
        self.reset_for_client = true;
    }

    /// Makes the client vanish without closing the connection.
    pub(crate) fn vanish(&mut self) {
        self.vanished_at = Some(self.clocks.served.load(Ordering::Relaxed));
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.vanished_at.is_some()
    }

    /// Returns whether neither end can notice any more changes.
    pub(crate) fn is_done(&self) -> bool {
        self.server_gone && (self.is_dead() || self.client_gone || self.reset_for_client)
    }

    /// Closes the client's socket.
    pub(crate) fn client_closes(&mut self) {
        self.client_gone = true;
        self.client_ends();
        self.to_client.arrived.clear();
        // Accept and discard all bytes that arrive later.
        self.to_client.receive_limit = usize::MAX;
    }

    /// Starts recording the bytes that the server writes.
    pub(crate) fn remember_written(&mut self) {
        self.written = Some(Vec::new());
    }

    /// Returns the bytes accepted by the server's kernel, if recorded.
    pub(crate) fn written(&self) -> &[u8] {
        self.written.as_deref().unwrap_or_default()
    }

    /// Returns whether the server's receive buffer is empty.
    pub(crate) fn server_has_read_all(&self) -> bool {
        self.to_server.arrived.is_empty()
    }

    /// Returns whether bytes are waiting in the server's send buffer.
    pub(crate) fn is_full(&self) -> bool {
        !self.to_client.sent.is_empty()
    }

    /// Returns whether the connection has failed, or the end of the client's stream has reached the server's
    /// kernel.
    pub(crate) fn is_over_for_server(&self) -> bool {
        self.to_server.end_arrived || self.failed.is_some()
    }
}

/// A wire shared by both ends.
#[derive(Clone, Debug)]
pub(crate) struct SharedWire(Arc<Mutex<Wire>>);

/// Sizes of a connection's kernel buffers, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffers {
    pub(crate) server_send: usize,
    pub(crate) server_receive: usize,
    pub(crate) client_send: usize,
    pub(crate) client_receive: usize,
}

impl SharedWire {
    pub(crate) fn new(
        number: ConnectionNumber,
        buffers: Buffers,
        clocks: &Arc<Clocks>,
        changed: &ChangedConnections,
        parked_changes: &Arc<Mutex<ParkedChanges>>,
    ) -> Self {
        let served = clocks.served.load(Ordering::Relaxed);
        Self(Arc::new(Mutex::new(Wire {
            number,
            to_server: Pipe::new(buffers.client_send, buffers.server_receive),
            to_client: Pipe::new(buffers.server_send, buffers.client_receive),
            failed: None,
            reset_for_client: false,
            vanished_at: None,
            server_gone: false,
            was_given_up: false,
            client_gone: false,
            reader: None,
            writer: None,
            last_acknowledged: clocks.monotonic.load(Ordering::Relaxed),
            acknowledged: Acknowledged::default(),
            last_arrival: served,
            written_at: None,
            written: None,
            is_parked: false,
            clocks: Arc::clone(clocks),
            changed: Arc::clone(changed),
            parked_changes: Arc::clone(parked_changes),
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Wire> {
        self.0.lock()
    }

    /// Creates the server's end.
    pub(crate) fn server_socket(&self) -> ServerSocket {
        ServerSocket(self.clone())
    }
}

/// The server's end of a connection.
#[derive(Debug)]
pub(crate) struct ServerSocket(SharedWire);

impl SimulatedSocket for ServerSocket {
    fn poll_receive(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut wire = self.0.lock();
        if let Some(kind) = wire.failed {
            return Poll::Ready(Err(kind.into()));
        }
        let count = wire.to_server.arrived.len().min(into.len());
        if count == 0 && !wire.to_server.end_arrived {
            wire.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        for (to, from) in into.iter_mut().zip(wire.to_server.arrived.drain(..count)) {
            *to = from;
        }
        // The receive buffer has space for more of the bytes in transit.
        wire.notify();
        Poll::Ready(Ok(count))
    }

    fn poll_send(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut wire = self.0.lock();
        if let Some(kind) = wire.failed {
            return Poll::Ready(Err(kind.into()));
        }
        if wire.to_client.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let taken = wire.to_client.send(bytes);
        if taken == 0 && !bytes.is_empty() {
            wire.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        if let Some(written) = &mut wire.written {
            written.extend_from_slice(&bytes[..taken]);
        }
        wire.written_at = Some(wire.clocks.served.load(Ordering::Relaxed));
        wire.notify();
        Poll::Ready(Ok(taken))
    }

    fn end_stream(&mut self) {
        let mut wire = self.0.lock();
        wire.to_client.ended = true;
        wire.notify();
    }

    fn holds_bytes(&self) -> bool {
        !self.0.lock().to_server.arrived.is_empty()
    }

    fn is_over(&self) -> bool {
        self.0.lock().is_over_for_server()
    }

    fn unacknowledged(&self) -> Unacknowledged {
        let wire = self.0.lock();
        let now = wire.clocks.monotonic.load(Ordering::Relaxed);
        Unacknowledged {
            bytes: wire.to_client.sent.len() as u64,
            in_flight: !wire.to_client.sent.is_empty() && wire.to_client.has_room(),
            silent_for: Duration::from_nanos(now - wire.last_acknowledged),
        }
    }

    fn can_park(&self) -> bool {
        true
    }

    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut wire = self.0.lock();
        if wire.failed.is_some() || !wire.to_server.arrived.is_empty() || wire.to_server.end_arrived {
            return Poll::Ready(());
        }
        wire.reader = Some(context.waker().clone());
        Poll::Pending
    }

    fn on_park(&mut self) {
        self.0.lock().is_parked = true;
    }

    fn on_unpark(&mut self) {
        let mut wire = self.0.lock();
        wire.is_parked = false;
        wire.parked_changes.lock().woken = Some(wire.number);
    }
}

impl Drop for ServerSocket {
    fn drop(&mut self) {
        let mut wire = self.0.lock();
        if wire.is_parked {
            wire.parked_changes.lock().ended.push(wire.number);
        }
        wire.server_gone = true;
        wire.was_given_up = !wire.to_client.sent.is_empty();
        wire.to_client.ended = true;
        wire.reader = None;
        wire.writer = None;
        // Closing a socket with unread bytes sends a reset.
        if !wire.to_server.arrived.is_empty() && wire.failed.is_none() && !wire.is_dead() {
            wire.to_client.sent.clear();
            wire.reset_for_client = true;
        }
        wire.notify();
    }
}
