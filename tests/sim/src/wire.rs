//! One connection: the two ends' kernels, and what is between them.
//!
//! Each way has two limited buffers: what the sender's kernel has taken, and what the receiver's kernel holds for it to read. Bytes
//! move from one to the other when the scheduler says so.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use encke_server::simulation::Socket;
use encke_sys::Unacknowledged;
use parking_lot::{Mutex, MutexGuard};

use crate::schedule::{ConnectionNumber, Way};

/// What time it is, for the kernels.
#[derive(Debug, Default)]
pub(crate) struct Times {
    /// The machine's clock, in nanoseconds.
    pub(crate) monotonic: AtomicU64,
    /// The server's time.
    pub(crate) served: AtomicU64,
}

/// The connections at which something has happened that the scheduler must know of.
pub(crate) type News = Arc<Mutex<Vec<ConnectionNumber>>>;

/// What becomes of connections at rest, until the scheduler knows.
#[derive(Debug, Default)]
pub(crate) struct AtRest {
    /// The one whose task the server spawns next.
    pub(crate) woken: Option<ConnectionNumber>,
    /// Those that have ended without a task.
    pub(crate) ended: Vec<ConnectionNumber>,
}

/// One way of a connection.
#[derive(Debug)]
pub(crate) struct Pipe {
    /// Taken by the sender's kernel, not acknowledged by the receiver's.
    sent: VecDeque<u8>,
    /// Held by the receiver's kernel.
    arrived: VecDeque<u8>,
    send_limit: usize,
    receive_limit: usize,
    /// The sender has ended its stream.
    ended: bool,
    /// The receiver's kernel knows.
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
        // As Linux has it: when a third is free.
        self.sent.len() * 3 <= self.send_limit * 2
    }

    /// Whether the receiver's kernel takes more.
    fn has_room(&self) -> bool {
        self.arrived.len() < self.receive_limit
    }

    /// Whether anything can move now.
    fn has_way(&self) -> bool {
        let bytes = !self.sent.is_empty() && self.has_room();
        bytes || (self.sent.is_empty() && self.ended && !self.end_arrived)
    }
}

/// When how many bytes were acknowledged, in the server's time, and no longer ago than anyone asks.
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

    /// How many bytes after this time.
    pub(crate) fn after(&self, time: u64) -> usize {
        self.0.iter().rev().take_while(|(at, _)| *at > time).map(|(_, bytes)| bytes).sum()
    }
}

/// A connection as both kernels see it.
#[derive(Debug)]
pub(crate) struct Wire {
    number: ConnectionNumber,
    pub(crate) to_server: Pipe,
    pub(crate) to_client: Pipe,
    /// Why the server's calls fail, if they do.
    failed: Option<io::ErrorKind>,
    /// The client sees a reset.
    pub(crate) reset_for_client: bool,
    /// When the client vanished, in the server's time. Nothing has moved since.
    pub(crate) vanished_at: Option<u64>,
    /// The server has closed its socket.
    pub(crate) server_gone: bool,
    /// When it did, the client's machine had not acknowledged all.
    pub(crate) was_given_up: bool,
    /// The client has closed its socket.
    client_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// When the client's kernel last acknowledged anything, by the machine's clock.
    last_acknowledged: u64,
    /// What it has acknowledged of late, in the server's time.
    pub(crate) acknowledged: Acknowledged,
    /// When bytes last came to the server's kernel, in the server's time.
    pub(crate) last_arrival: u64,
    /// When the server last wrote, in its time.
    pub(crate) written_at: Option<u64>,
    /// All that it wrote, where that is looked at.
    written: Option<Vec<u8>>,
    /// No task of the server has its end.
    pub(crate) is_at_rest: bool,
    times: Arc<Times>,
    news: News,
    at_rest: Arc<Mutex<AtRest>>,
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

    fn tell(&self) {
        self.news.lock().push(self.number);
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

    /// Moves at most `at_most` bytes. Returns how many it were.
    pub(crate) fn carry(&mut self, way: Way, at_most: usize) -> usize {
        if self.is_dead() || self.failed.is_some() {
            return 0;
        }
        let pipe = self.pipe_mut(way);
        let moved = pipe.sent.len().min(pipe.receive_limit - pipe.arrived.len()).min(at_most);
        pipe.arrived.extend(pipe.sent.drain(..moved));
        if pipe.sent.is_empty() && pipe.ended {
            pipe.end_arrived = true;
        }
        match way {
            Way::ToServer => self.carried_to_server(moved),
            Way::ToClient => {
                if moved > 0 {
                    self.last_acknowledged = self.times.monotonic.load(Ordering::Relaxed);
                    self.acknowledged.add(self.times.served.load(Ordering::Relaxed), moved);
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
            self.last_arrival = self.times.served.load(Ordering::Relaxed);
        }
        if self.server_gone && moved > 0 {
            // Nobody will read it.
            self.reset_for_client = true;
        }
        self.wake_reader();
    }

    fn pipe_mut(&mut self, way: Way) -> &mut Pipe {
        match way {
            Way::ToServer => &mut self.to_server,
            Way::ToClient => &mut self.to_client,
        }
    }

    /// Whether anything can move this way now.
    pub(crate) fn has_way(&self, way: Way) -> bool {
        let pipe = match way {
            Way::ToServer => &self.to_server,
            Way::ToClient => &self.to_client,
        };
        !self.is_dead() && self.failed.is_none() && pipe.has_way()
    }

    /// The client's kernel takes what it has room for.
    pub(crate) fn client_sends(&mut self, bytes: &mut VecDeque<u8>) {
        let (first, _) = bytes.as_slices();
        let taken = if self.to_server.ended { first.len() } else { self.to_server.send(first) };
        bytes.drain(..taken);
        if !bytes.is_empty() && taken > 0 {
            self.client_sends(bytes);
        }
    }

    /// The client reads at most `at_most` bytes.
    pub(crate) fn client_reads(&mut self, at_most: usize, into: &mut Vec<u8>) {
        let count = self.to_client.arrived.len().min(at_most);
        into.extend(self.to_client.arrived.drain(..count));
    }

    /// Whether the client has read all that there is, and the server's stream has ended.
    pub(crate) fn is_read_out(&self) -> bool {
        self.to_client.arrived.is_empty() && (self.to_client.end_arrived || self.reset_for_client)
    }

    pub(crate) fn has_unread(&self) -> bool {
        !self.to_client.arrived.is_empty()
    }

    /// The client ends its stream; it may read on.
    pub(crate) fn client_ends(&mut self) {
        self.to_server.ended = true;
    }

    /// The connection is reset: both ends notice at their next call.
    pub(crate) fn reset(&mut self) {
        if self.failed.is_none() && !self.is_dead() {
            self.fail(io::ErrorKind::ConnectionReset);
        }
        self.reset_for_client = true;
    }

    /// The client has vanished without a word.
    pub(crate) fn vanish(&mut self) {
        self.vanished_at = Some(self.times.served.load(Ordering::Relaxed));
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.vanished_at.is_some()
    }

    /// Nobody can notice anything of it any more.
    pub(crate) fn is_done(&self) -> bool {
        self.server_gone && (self.is_dead() || self.client_gone || self.reset_for_client)
    }

    /// The client has closed its socket.
    pub(crate) fn client_closes(&mut self) {
        self.client_gone = true;
        self.client_ends();
        self.to_client.arrived.clear();
        // What comes from now on is thrown away.
        self.to_client.receive_limit = usize::MAX;
    }

    /// What the server writes is remembered.
    pub(crate) fn remember_written(&mut self) {
        self.written = Some(Vec::new());
    }

    /// What the server's kernel has taken, if that is remembered.
    pub(crate) fn written(&self) -> &[u8] {
        self.written.as_deref().unwrap_or_default()
    }

    /// Whether the server's kernel holds nothing for the server to read.
    pub(crate) fn server_has_read_all(&self) -> bool {
        self.to_server.arrived.is_empty()
    }

    /// Whether the server could not write now.
    pub(crate) fn is_full(&self) -> bool {
        !self.to_client.sent.is_empty()
    }

    /// The end or the failure of the connection is known to the server's kernel.
    pub(crate) fn is_over_for_server(&self) -> bool {
        self.to_server.end_arrived || self.failed.is_some()
    }
}

/// A wire that both sides hold.
#[derive(Clone, Debug)]
pub(crate) struct Shared(Arc<Mutex<Wire>>);

/// How much fits into the kernels of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffers {
    pub(crate) server_send: usize,
    pub(crate) server_receive: usize,
    pub(crate) client_send: usize,
    pub(crate) client_receive: usize,
}

impl Shared {
    pub(crate) fn new(
        number: ConnectionNumber,
        buffers: Buffers,
        times: &Arc<Times>,
        news: &News,
        at_rest: &Arc<Mutex<AtRest>>,
    ) -> Self {
        let served = times.served.load(Ordering::Relaxed);
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
            last_acknowledged: times.monotonic.load(Ordering::Relaxed),
            acknowledged: Acknowledged::default(),
            last_arrival: served,
            written_at: None,
            written: None,
            is_at_rest: false,
            times: Arc::clone(times),
            news: Arc::clone(news),
            at_rest: Arc::clone(at_rest),
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Wire> {
        self.0.lock()
    }

    /// The server's end.
    pub(crate) fn server_socket(&self) -> ServerSocket {
        ServerSocket(self.clone())
    }
}

/// The server's end of a connection.
#[derive(Debug)]
pub(crate) struct ServerSocket(Shared);

impl Socket for ServerSocket {
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
        // There is room again.
        wire.tell();
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
        wire.written_at = Some(wire.times.served.load(Ordering::Relaxed));
        wire.tell();
        Poll::Ready(Ok(taken))
    }

    fn end_stream(&mut self) {
        let mut wire = self.0.lock();
        wire.to_client.ended = true;
        wire.tell();
    }

    fn holds_bytes(&self) -> bool {
        !self.0.lock().to_server.arrived.is_empty()
    }

    fn is_over(&self) -> bool {
        self.0.lock().is_over_for_server()
    }

    fn unacknowledged(&self) -> Unacknowledged {
        let wire = self.0.lock();
        let now = wire.times.monotonic.load(Ordering::Relaxed);
        Unacknowledged {
            bytes: wire.to_client.sent.len() as u64,
            in_flight: !wire.to_client.sent.is_empty() && wire.to_client.has_room(),
            silent_for: Duration::from_nanos(now - wire.last_acknowledged),
        }
    }

    fn can_rest(&self) -> bool {
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

    fn rests(&mut self) {
        self.0.lock().is_at_rest = true;
    }

    fn wakes(&mut self) {
        let mut wire = self.0.lock();
        wire.is_at_rest = false;
        wire.at_rest.lock().woken = Some(wire.number);
    }
}

impl Drop for ServerSocket {
    fn drop(&mut self) {
        let mut wire = self.0.lock();
        if wire.is_at_rest {
            wire.at_rest.lock().ended.push(wire.number);
        }
        wire.server_gone = true;
        wire.was_given_up = !wire.to_client.sent.is_empty();
        wire.to_client.ended = true;
        wire.reader = None;
        wire.writer = None;
        // A socket that is closed with unread bytes in it sends a reset.
        if !wire.to_server.arrived.is_empty() && wire.failed.is_none() && !wire.is_dead() {
            wire.to_client.sent.clear();
            wire.reset_for_client = true;
        }
        wire.tell();
    }
}
