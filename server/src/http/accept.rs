use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use crate::admission::LogThrottle;
use crate::metrics::Metrics;
use crate::timeouts::Timeouts;

/// How often to log that connections cannot be accepted.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// How long to wait when the process has no descriptor for another connection.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(100);

/// How often to look whether there is a descriptor again that connections of this listener may have.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How often it looks before that, each time after other tasks have run: a socket that gives way is closed by its task.
const LOOKS_AT_ONCE: u32 = 8;
/// After how many looks another gives way: one that is told why it is closed keeps its descriptor for a tenth of a second.
const LOOKS_FOR_ONE: u32 = LOOKS_AT_ONCE + 12;

/// Connections that are accepted before others have their turn. Each becomes a task, and too many of these at once would delay
/// the tasks that there are: the runtime moves what a worker's queue cannot hold to a queue that is hardly looked at.
const ACCEPTED_AT_ONCE: u32 = 16;

/// How much the kernel holds of a connection that it has not sent yet, before it takes no more.
const UNSENT_BYTES: u32 = 16 * 1024;

/// A bound address. Connections can arrive, and wait, before they are [accepted](Acceptor).
#[derive(Debug)]
pub(crate) struct Listener {
    socket: std::net::TcpListener,
    pub(crate) address: SocketAddr,
    /// For connections that may have come before the socket had these options: they have not inherited them.
    for_waiting: Option<SocketOptions>,
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

    /// Listens on a socket that was listened on before this process began.
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
        // Again, if it was listened on before: it gets this backlog then.
        socket.listen(backlog)?;
        let socket = std::net::TcpListener::from(socket);
        let address = socket.local_addr()?;
        Ok(Self { socket, address, for_waiting })
    }
}

/// What every accepted socket inherits from the one that is listened on, so that it costs no system call a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketOptions {
    /// What may wait in the kernel to be read by a client, in bytes.
    pub(crate) send_buffer: usize,
    /// What may wait in the kernel to be read from a client, in bytes.
    pub(crate) receive_buffer: usize,
}

impl SocketOptions {
    fn set(self, socket: &Socket) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        // Heartbeats and replies are small, and waited for.
        socket.set_tcp_nodelay(true)?;
        // A client that never reads would otherwise take up to 4 MB of kernel memory.
        socket.set_send_buffer_size(self.send_buffer)?;
        // A client that sends and is not read would otherwise take as much.
        socket.set_recv_buffer_size(self.receive_buffer)?;
        // What is sent last shall not wait for long behind what was sent before: a ping, above all.
        socket.set_tcp_notsent_lowat(UNSENT_BYTES)
    }
}

/// Accepts connections.
#[derive(Debug)]
pub(crate) struct Acceptor {
    timeouts: Arc<Timeouts>,
    metrics: Arc<Metrics>,
    /// Connections have descriptors with numbers below this: the others are kept for all else.
    below: usize,
    said: LogThrottle,
}

/// What becomes of the connections that are accepted.
pub(crate) trait Serve {
    /// Ready when there is room for one more. Each waits in the kernel until then.
    fn room(&self) -> impl Future<Output = ()>;

    /// There is no descriptor for the next, which waits: those that are being closed should come to an end.
    fn hurry(&self) {}

    /// One that has done nothing yet should give way for it. Whether one does.
    fn give_way(&self) -> bool {
        false
    }

    /// Serves one.
    fn serve(&self, socket: TcpStream, peer: SocketAddr);
}

impl Acceptor {
    pub(crate) fn new(timeouts: Arc<Timeouts>, metrics: Arc<Metrics>, below: usize) -> Self {
        Self { timeouts, metrics, below, said: LogThrottle::once_in(LOG_INTERVAL) }
    }

    /// Accepts what has waited for the options of the socket, until nobody waits any more. What goes wrong is left to those who accept
    /// the rest.
    async fn accept_waiting(&self, listener: &Listener, connections: &impl Serve) {
        let Some(options) = listener.for_waiting else { return };
        loop {
            connections.room().await;
            let Ok((socket, peer)) = listener.socket.accept() else { return };
            let socket =
                if self.may_have(&socket) { socket } else { self.lowered(socket, connections).await };
            if options.set(&SockRef::from(&socket)).is_ok()
                && let Ok(socket) = TcpStream::from_std(socket)
            {
                connections.serve(socket, peer);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Accepts for as long as it is polled.
    pub(crate) async fn accept(self, listener: Listener, connections: impl Serve) {
        self.accept_waiting(&listener, &connections).await;
        let listener = match TcpListener::from_std(listener.socket) {
            Ok(listener) => listener,
            Err(error) => {
                return tracing::error!(%error, address = %listener.address, "cannot accept connections");
            }
        };
        let mut accepted = 0;
        loop {
            if accepted == ACCEPTED_AT_ONCE {
                accepted = 0;
                tokio::task::yield_now().await;
            }
            accepted += 1;
            connections.room().await;
            match self.next(&listener, &connections).await {
                Ok((socket, peer)) => connections.serve(socket, peer),
                // The peer was gone before we came to it.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                // Of the process, or of the machine, all are open.
                Err(error) => {
                    connections.hurry();
                    connections.give_way();
                    self.failed(&error);
                    self.timeouts.sleep(PAUSE_AFTER_ERROR).await;
                }
            }
        }
    }

    async fn next(
        &self,
        listener: &TcpListener,
        connections: &impl Serve,
    ) -> io::Result<(TcpStream, SocketAddr)> {
        let (socket, peer) = listener.accept().await?;
        if self.may_have(&socket) {
            return Ok((socket, peer));
        }
        let socket = self.lowered(socket.into_std()?, connections).await;
        Ok((TcpStream::from_std(socket)?, peer))
    }

    fn may_have(&self, socket: &impl AsRawFd) -> bool {
        usize::try_from(socket.as_raw_fd()).is_ok_and(|number| number < self.below)
    }

    /// The same socket by a lower descriptor, as soon as there is one; it has one of those that are kept. The kernel gives the lowest that is free:
    /// so no more than this one are taken, and all who come later wait in the kernel.
    async fn lowered(
        &self,
        mut socket: std::net::TcpStream,
        connections: &impl Serve,
    ) -> std::net::TcpStream {
        let (mut looks, mut next_gives_way) = (0, 0);
        while !self.may_have(&socket) {
            connections.hurry();
            if looks >= next_gives_way && connections.give_way() {
                next_gives_way = looks + LOOKS_FOR_ONE;
            }
            if looks < LOOKS_AT_ONCE {
                tokio::task::yield_now().await;
            } else {
                if looks == LOOKS_AT_ONCE {
                    self.failed(&"no descriptor is left for it; raise LimitNOFILE or `ulimit -n`");
                }
                self.timeouts.sleep(LOOK_AGAIN).await;
            }
            looks += 1;
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
        if self.said.pass(self.timeouts.clock().now()).is_some() {
            tracing::error!(%error, "cannot accept connections; trying on");
        }
    }
}
