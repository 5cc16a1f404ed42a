//! A connection: the kernels of its two ends, and the bytes in transit.
//!
//! Each direction has two bounded buffers: the sender's send buffer, and the receiver's receive buffer. The
//! scheduler decides when bytes move from one to the other.

mod server_socket;

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use encke_server::testing::simulation::RequestArrival;
use parking_lot::{Mutex, MutexGuard};

use crate::schedule::{ConnectionNumber, Direction};
pub(crate) use server_socket::ServerSocket;

/// State shared by the kernels of all connections.
#[derive(Debug, Default)]
pub(crate) struct Network {
    /// Monotonic clock, in nanoseconds.
    pub(crate) monotonic: AtomicU64,
    /// The server's clock, in nanoseconds.
    pub(crate) served: AtomicU64,
    /// Connections whose state has changed, for the scheduler.
    pub(crate) changed: Mutex<Vec<ConnectionNumber>>,
    /// Connection that the server has just unparked. The next task that it spawns serves this connection.
    pub(crate) unparked: Mutex<Option<ConnectionNumber>>,
    /// Connections that ended while parked.
    pub(crate) ended_parked: Mutex<Vec<ConnectionNumber>>,
}

impl Network {
    fn monotonic(&self) -> u64 {
        self.monotonic.load(Ordering::Relaxed)
    }

    fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }
}

/// Sizes of a connection's kernel buffers, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffers {
    pub(crate) server_send: usize,
    pub(crate) server_receive: usize,
    pub(crate) client_send: usize,
    pub(crate) client_receive: usize,
}

impl Buffers {
    pub(crate) const UNLIMITED: Self = {
        let size = usize::MAX / 4;
        Self { server_send: size, server_receive: size, client_send: size, client_receive: size }
    };
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub(crate) struct Pipe {
    /// Bytes in the sender's send buffer, not yet acknowledged by the receiver.
    pub(crate) sent: VecDeque<u8>,
    /// Bytes in the receiver's receive buffer.
    pub(crate) arrived: VecDeque<u8>,
    send_limit: usize,
    receive_limit: usize,
    /// Whether the sender has ended its stream.
    ended: bool,
    /// Whether the end of the stream has reached the receiver's kernel.
    end_arrived: bool,
}

impl Pipe {
    fn new(send_limit: usize, receive_limit: usize) -> Self {
        Self { send_limit, receive_limit, ..Self::default() }
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

    fn has_room(&self) -> bool {
        self.arrived.len() < self.receive_limit
    }

    /// Returns whether bytes, or the end of the stream, can move now.
    fn can_move(&self) -> bool {
        let bytes = !self.sent.is_empty() && self.has_room();
        bytes || (self.sent.is_empty() && self.ended && !self.end_arrived)
    }

    /// Moves at most `at_most` bytes, then the end of the stream. Returns the number of bytes.
    fn carry(&mut self, at_most: usize) -> usize {
        let moved = self.sent.len().min(self.receive_limit - self.arrived.len()).min(at_most);
        self.arrived.extend(self.sent.drain(..moved));
        self.end_arrived |= self.sent.is_empty() && self.ended;
        moved
    }
}

/// Number of acknowledgements remembered. They cover the period that the checks need.
const REMEMBERED: usize = 4_096;

/// A connection, with the kernels of both ends.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    number: ConnectionNumber,
    network: Arc<Network>,
    pub(crate) to_server: Pipe,
    pub(crate) to_client: Pipe,
    /// Error returned by the server's calls, if any.
    failed: Option<io::ErrorKind>,
    /// Whether the client sees a reset.
    reset_for_client: bool,
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
    /// Recent acknowledgements: the time by the server's clock, and the number of bytes.
    acknowledged: VecDeque<(u64, usize)>,
    /// When bytes last arrived at the server's kernel, by the server's clock.
    pub(crate) last_arrival: u64,
    /// Place of these bytes in the order of everything that has arrived at the server.
    pub(crate) last_place: RequestArrival,
    /// When the server last read, by its clock.
    pub(crate) read_at: u64,
    /// When the server last wrote, by its clock.
    pub(crate) written_at: Option<u64>,
    /// All bytes accepted by the server's kernel, if they are recorded.
    pub(crate) written: Option<Vec<u8>>,
    /// Whether the server's end is parked: no task owns it.
    pub(crate) is_parked: bool,
}

impl Wire {
    fn wake_reader(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
    }

    fn wake_writer(&mut self) {
        self.writer.take().into_iter().for_each(Waker::wake);
    }

    fn notify(&self) {
        self.network.changed.lock().push(self.number);
    }

    fn pipe(&mut self, direction: Direction) -> &mut Pipe {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    /// Returns whether bytes, or the end of the stream, can move in this direction now.
    pub(crate) fn can_move(&mut self, direction: Direction) -> bool {
        !self.has_vanished() && self.failed.is_none() && self.pipe(direction).can_move()
    }

    /// Moves at most `at_most` bytes. Returns their number.
    pub(crate) fn carry(&mut self, direction: Direction, at_most: usize) -> usize {
        if !self.can_move(direction) {
            return 0;
        }
        let moved = self.pipe(direction).carry(at_most);
        match direction {
            Direction::ToServer => {
                if moved > 0 {
                    self.last_arrival = self.network.served();
                    // If the server can no longer read these bytes, its kernel sends a reset.
                    self.reset_for_client |= self.server_gone;
                }
                self.wake_reader();
            }
            Direction::ToClient => {
                if moved > 0 {
                    self.last_acknowledged = self.network.monotonic();
                    self.acknowledged_now(moved);
                }
                if self.to_client.is_writable() {
                    self.wake_writer();
                }
            }
        }
        moved
    }

    fn acknowledged_now(&mut self, bytes: usize) {
        let now = self.network.served();
        match self.acknowledged.back_mut() {
            Some((last, sum)) if *last == now => *sum += bytes,
            _ => self.acknowledged.push_back((now, bytes)),
        }
        if self.acknowledged.len() > REMEMBERED {
            self.acknowledged.pop_front();
        }
    }

    pub(crate) fn acknowledged_after(&self, time: u64) -> usize {
        self.acknowledged.iter().rev().take_while(|(at, _)| *at > time).map(|(_, bytes)| bytes).sum()
    }

    /// Moves as many of the client's bytes as fit into its send buffer.
    pub(crate) fn client_sends(&mut self, bytes: &mut VecDeque<u8>) {
        if self.to_server.ended {
            return bytes.clear();
        }
        let taken = self.to_server.send(bytes.make_contiguous());
        bytes.drain(..taken);
    }

    pub(crate) fn client_reads(&mut self, at_most: usize, into: &mut Vec<u8>) {
        let count = self.to_client.arrived.len().min(at_most);
        into.extend(self.to_client.arrived.drain(..count));
    }

    /// Returns whether the client has read everything and the server's stream has ended.
    pub(crate) fn is_read_out(&self) -> bool {
        self.to_client.arrived.is_empty() && (self.to_client.end_arrived || self.reset_for_client)
    }

    /// Resets the connection. Both ends notice at their next call.
    pub(crate) fn reset(&mut self) {
        self.reset_for_client = true;
        if self.failed.is_some() || self.has_vanished() {
            return;
        }
        self.failed = Some(io::ErrorKind::ConnectionReset);
        self.to_client.sent.clear();
        self.to_server.sent.clear();
        self.to_server.arrived.clear();
        self.wake_reader();
        self.wake_writer();
    }

    /// Makes the client vanish without closing the connection.
    pub(crate) fn vanish(&mut self) {
        self.vanished_at = Some(self.network.served());
    }

    pub(crate) fn has_vanished(&self) -> bool {
        self.vanished_at.is_some()
    }

    /// Returns whether the client can no longer exchange anything with the server.
    pub(crate) fn is_over_for_client(&self) -> bool {
        self.has_vanished() || self.client_gone || self.reset_for_client
    }

    /// Returns whether the connection has failed, or the end of the client's stream has reached the server's
    /// kernel.
    pub(crate) fn is_over_for_server(&self) -> bool {
        self.to_server.end_arrived || self.failed.is_some()
    }

    pub(crate) fn client_closes(&mut self) {
        self.client_gone = true;
        self.to_server.ended = true;
        self.to_client.arrived.clear();
        // Accept and discard all bytes that arrive later.
        self.to_client.receive_limit = usize::MAX;
    }
}

/// A wire shared by both ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedWire(Arc<Mutex<Wire>>);

impl SharedWire {
    pub(crate) fn new(number: ConnectionNumber, buffers: Buffers, network: &Arc<Network>) -> Self {
        Self(Arc::new(Mutex::new(Wire {
            number,
            network: Arc::clone(network),
            to_server: Pipe::new(buffers.client_send, buffers.server_receive),
            to_client: Pipe::new(buffers.server_send, buffers.client_receive),
            last_acknowledged: network.monotonic(),
            last_arrival: network.served(),
            ..Wire::default()
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Wire> {
        self.0.lock()
    }

    pub(crate) fn server_socket(&self) -> ServerSocket {
        ServerSocket(self.clone())
    }
}
