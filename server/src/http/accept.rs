use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use encke_base::metrics::Metrics;
use encke_timeouts::Timeouts;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::admission::LogThrottle;

/// How often to log that connections cannot be accepted.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// How long to wait before retrying when the process has no descriptor for another connection.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// Interval between checks for a free descriptor that connections of this listener may use.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// Number of initial checks without a pause between them. Other tasks run before each check, because the
/// socket of an evicted connection is closed by the connection's task.
const IMMEDIATE_CHECKS: u32 = 8;
/// Number of checks between evictions. An evicted connection that is sent the reason keeps its descriptor for
/// a tenth of a second.
const CHECKS_PER_EVICTION: u32 = IMMEDIATE_CHECKS + 12;

/// Maximum number of connections to accept before other tasks run. Each becomes a task, and too many new
/// tasks together would delay the existing ones: the runtime moves the overflow of a worker's queue to a
/// queue that is rarely polled.
const MAX_ACCEPTS_PER_POLL: u32 = 16;

/// Maximum number of unsent bytes of a connection. Until some of them are sent, the kernel accepts no more
/// output.
const UNSENT_BYTES: u32 = 16 * 1024;

/// A listening socket. Connections may arrive, and are queued, before they are [accepted](Acceptor).
#[derive(Debug)]
pub(crate) struct Listener {
    socket: std::net::TcpListener,
    pub(crate) address: SocketAddr,
    /// Options to set on connections that may have arrived before the listening socket had these options, and
    /// thus have not inherited them.
    queued_options: Option<SocketOptions>,
}

impl Listener {
    /// Listens on an address.
    pub(crate) fn bind(address: SocketAddr, backlog: i32, options: SocketOptions) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        options.set(&socket)?;
        socket.bind(&address.into())?;
        Self::listen(socket, backlog, None)
    }

    /// Listens on a socket that was listening before this process started.
    pub(crate) fn inherit(
        socket: std::net::TcpListener,
        backlog: i32,
        options: SocketOptions,
    ) -> io::Result<Self> {
        let socket = Socket::from(socket);
        options.set(&socket)?;
        Self::listen(socket, backlog, Some(options))
    }

    fn listen(socket: Socket, backlog: i32, for_waiting: Option<SocketOptions>) -> io::Result<Self> {
        // On a socket that is already listening, this sets the backlog.
        socket.listen(backlog)?;
        let socket = std::net::TcpListener::from(socket);
        let address = socket.local_addr()?;
        Ok(Self { socket, address, queued_options: for_waiting })
    }
}

/// Options that accepted sockets inherit from the listening socket, so that they cost no system call per
/// connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketOptions {
    /// Number of bytes that the kernel may hold for a client to read.
    pub(crate) send_buffer: usize,
    /// Number of bytes from a client that the kernel may hold unread.
    pub(crate) receive_buffer: usize,
}

impl SocketOptions {
    fn set(self, socket: &Socket) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        // Heartbeats and replies are small, and clients wait for them.
        socket.set_tcp_nodelay(true)?;
        // Otherwise, a client that never reads would take up to 4 MB of kernel memory.
        socket.set_send_buffer_size(self.send_buffer)?;
        // Otherwise, a client whose input is not read would take as much.
        socket.set_recv_buffer_size(self.receive_buffer)?;
        // Determines the order of requests.
        encke_sys::record_receive_times(socket)?;
        // The latest output, above all a ping, must not wait long behind earlier output.
        socket.set_tcp_notsent_lowat(UNSENT_BYTES)
    }
}

/// Accepts connections.
#[derive(Debug)]
pub(crate) struct Acceptor {
    timeouts: Arc<Timeouts>,
    metrics: Arc<Metrics>,
    /// Connections use descriptors with numbers below this limit. Higher numbers are reserved for other uses.
    descriptor_limit: usize,
    log_throttle: LogThrottle,
}

/// Handles accepted connections.
pub(crate) trait ConnectionHandler {
    /// Waits until a connection that was accepted may be served. In the meantime, others wait in the kernel.
    fn wait_for_room(&self) -> impl Future<Output = ()>;

    /// Makes closing connections finish sooner. Called when there is no descriptor for the next connection.
    fn hurry_closing(&self) {}

    /// Evicts a connection that has not done anything yet, in favour of the next one. Returns whether there
    /// was such a connection.
    fn evict_one(&self) -> bool {
        false
    }

    /// Serves a connection from this address.
    fn serve(&self, socket: TcpStream, peer: IpAddr);
}

/// Returns the peer's address. A socket that accepts both IPv4 and IPv6 reports `::ffff:192.0.2.7` for an IPv4
/// client.
fn address_of(peer: SocketAddr) -> IpAddr {
    peer.ip().to_canonical()
}

impl Acceptor {
    pub(crate) fn new(timeouts: Arc<Timeouts>, metrics: Arc<Metrics>, below: usize) -> Self {
        Self {
            timeouts,
            metrics,
            descriptor_limit: below,
            log_throttle: LogThrottle::with_interval(LOG_INTERVAL),
        }
    }

    /// Accepts the connections that arrived before the socket had its options, until no more are queued.
    /// Errors are left to the regular accept loop.
    async fn accept_queued(&self, listener: &Listener, connections: &impl ConnectionHandler) {
        let Some(options) = listener.queued_options else { return };
        loop {
            let Ok((socket, peer)) = listener.socket.accept() else { return };
            let socket = if self.has_allowed_descriptor(&socket) {
                socket
            } else {
                self.with_allowed_descriptor(socket, connections).await
            };
            connections.wait_for_room().await;
            if options.set(&SockRef::from(&socket)).is_ok()
                && let Ok(socket) = TcpStream::from_std(socket)
            {
                connections.serve(socket, address_of(peer));
            }
            tokio::task::yield_now().await;
        }
    }

    /// Accepts connections until the returned future is dropped.
    pub(crate) async fn accept(self, listener: Listener, connections: impl ConnectionHandler) {
        self.accept_queued(&listener, &connections).await;
        let listener = match TcpListener::from_std(listener.socket) {
            Ok(listener) => listener,
            Err(error) => {
                return tracing::error!(%error, address = %listener.address, "cannot accept connections on this address until a restart");
            }
        };
        let mut accepted = 0;
        loop {
            if accepted == MAX_ACCEPTS_PER_POLL {
                accepted = 0;
                tokio::task::yield_now().await;
            }
            accepted += 1;
            match self.next(&listener, &connections).await {
                Ok((socket, peer)) => {
                    connections.wait_for_room().await;
                    connections.serve(socket, address_of(peer));
                }
                // The peer had disconnected before the connection was accepted.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // All descriptors of the process or of the machine are in use.
                Err(error) => {
                    connections.hurry_closing();
                    connections.evict_one();
                    self.failed(&error);
                    self.timeouts.sleep(PAUSE_AFTER_ERROR).await;
                }
            }
        }
    }

    async fn next(
        &self,
        listener: &TcpListener,
        connections: &impl ConnectionHandler,
    ) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, peer) = listener.accept().await?;
        if self.has_allowed_descriptor(&socket) {
            return Ok((socket, peer));
        }
        let socket = self.with_allowed_descriptor(socket.into_std()?, connections).await;
        Ok((TcpStream::from_std(socket)?, peer))
    }

    fn has_allowed_descriptor(&self, socket: &impl AsRawFd) -> bool {
        usize::try_from(socket.as_raw_fd()).is_ok_and(|number| number < self.descriptor_limit)
    }

    /// Moves a socket from a reserved descriptor to a lower one as soon as one is free. The kernel assigns
    /// the lowest free descriptor, so no other reserved one is taken, and later connections wait in the
    /// kernel.
    async fn with_allowed_descriptor(
        &self,
        mut socket: std::net::TcpStream,
        connections: &impl ConnectionHandler,
    ) -> std::net::TcpStream {
        let (mut checks, mut next_eviction) = (0, 0);
        while !self.has_allowed_descriptor(&socket) {
            connections.hurry_closing();
            if checks >= next_eviction && connections.evict_one() {
                next_eviction = checks + CHECKS_PER_EVICTION;
            }
            if checks < IMMEDIATE_CHECKS {
                tokio::task::yield_now().await;
            } else {
                if checks == IMMEDIATE_CHECKS {
                    self.failed(&"no file descriptor is available; raise LimitNOFILE or `ulimit -n`");
                }
                self.timeouts.sleep(CHECK_INTERVAL).await;
            }
            checks += 1;
            if let Ok(other) = socket.try_clone()
                && other.as_raw_fd() < socket.as_raw_fd()
            {
                socket = other;
            }
        }
        socket
    }

    fn failed(&self, error: &dyn fmt::Display) {
        self.metrics.connections.accept_failed();
        if self.log_throttle.pass(self.timeouts.clock().now()).is_some() {
            tracing::error!(%error, "cannot accept connections; retrying");
        }
    }
}
