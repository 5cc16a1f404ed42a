use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::RawFd;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use encke_base::parking::AnyPoller;
use encke_broker::engine::Stream;
use encke_sys::Unacknowledged;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::RequestArrival;
use crate::connection::{self, ParkedSocket};

/// A socket in memory, with the operations that connections use.
pub trait SimulatedSocket: Unpin + Send + 'static {
    /// Reads available bytes; returns 0 at the end of the stream.
    fn poll_receive(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes as many bytes as fit.
    fn poll_send(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Ends the outgoing stream.
    fn end_stream(&mut self);

    /// Returns whether bytes are available to read.
    fn holds_bytes(&self) -> bool;

    /// Returns the place of the last bytes that have arrived in the order of requests.
    fn last_arrival(&self) -> RequestArrival {
        RequestArrival::default()
    }

    /// Returns whether the peer is known to have closed the connection.
    fn is_over(&self) -> bool;

    /// Bytes that the peer's kernel has not acknowledged.
    fn unacknowledged(&self) -> Unacknowledged;

    /// Returns whether the connection may be parked. The methods below are called only for such connections.
    fn can_park(&self) -> bool {
        false
    }

    /// Completes when bytes or the end of the stream can be read.
    fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Called when the connection is parked: the socket no longer belongs to a task.
    fn on_park(&mut self) {}

    /// Called when the connection is unparked: the socket belongs to the next spawned task.
    fn on_unpark(&mut self) {}
}

/// Simulated connection to Redis.
#[expect(missing_debug_implementations, reason = "sockets do not implement Debug")]
pub struct SimulatedStream(pub(super) Box<dyn Stream>);

impl SimulatedStream {
    /// Wraps the server's end of a connection.
    #[must_use]
    pub fn new(socket: impl SimulatedSocket) -> Self {
        Self(Box::new(Adapter(socket)))
    }
}

/// Implements the server's socket trait for a simulated socket.
pub(super) struct Adapter<S>(pub(super) S);

impl<S: SimulatedSocket> connection::Socket for Adapter<S> {
    type Parked = ParkedSocketEnd<S>;

    fn descriptor(&self) -> RawFd {
        -1
    }

    fn next_byte_received(&self) -> io::Result<Option<Duration>> {
        Ok(None)
    }

    fn last_received(&self) -> Duration {
        Duration::from_nanos(self.0.last_arrival().0.to_bits())
    }

    fn is_closed_by_peer(&self) -> bool {
        self.0.is_over()
    }

    fn has_unread_bytes(&self) -> bool {
        self.0.holds_bytes()
    }

    /// A simulated write is pending only while the kernel accepts nothing.
    fn is_writable(&self) -> bool {
        false
    }

    fn unacknowledged(&self) -> Unacknowledged {
        self.0.unacknowledged()
    }

    fn has_received(&mut self, given: bool) -> bool {
        given
    }

    fn can_park(&self) -> bool {
        self.0.can_park()
    }

    fn is_silent(&self) -> bool {
        !self.0.holds_bytes() && !self.0.is_over()
    }

    fn park(mut self) -> io::Result<ParkedSocketEnd<S>> {
        self.0.on_park();
        Ok(ParkedSocketEnd { socket: self.0, readable: None })
    }

    fn unpark(ParkedSocketEnd { mut socket, readable }: ParkedSocketEnd<S>) -> io::Result<Self> {
        // With epoll, a socket that is still registered would keep being reported, and registering it again
        // would fail.
        assert!(readable.is_none(), "an unparked socket is still registered with the poller");
        socket.on_unpark();
        Ok(Self(socket))
    }

    fn sent(&mut self, taken: usize) -> usize {
        taken
    }
}

/// Socket of a parked connection.
pub(super) struct ParkedSocketEnd<S> {
    socket: S,
    /// Wakes the poller when the socket is readable; `None` while the socket is not registered.
    readable: Option<Waker>,
}

impl<S: SimulatedSocket> ParkedSocketEnd<S> {
    /// Wakes the poller now if the socket is readable, or as soon as it is.
    fn tell(&mut self) {
        let Self { socket, readable: Some(readable) } = self else { return };
        if socket.poll_readable(&mut Context::from_waker(readable)).is_ready() {
            readable.wake_by_ref();
        }
    }
}

impl<S: SimulatedSocket> Read for ParkedSocketEnd<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.socket.poll_receive(&mut Context::from_waker(Waker::noop()), into);
        self.tell();
        match read {
            Poll::Ready(read) => read,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl<S: SimulatedSocket> Write for ParkedSocketEnd<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.socket.poll_send(&mut Context::from_waker(Waker::noop()), bytes) {
            Poll::Ready(taken) => taken,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: SimulatedSocket> ParkedSocket for ParkedSocketEnd<S> {
    fn has_unread_bytes(&self) -> bool {
        self.socket.holds_bytes()
    }

    fn unacknowledged(&self) -> io::Result<Unacknowledged> {
        Ok(self.socket.unacknowledged())
    }

    fn register(&mut self, poller: &AnyPoller, number: u64) -> io::Result<()> {
        let AnyPoller::Simulated(poller) = poller else { return Err(io::ErrorKind::Unsupported.into()) };
        self.readable = Some(poller.waker(number));
        self.tell();
        Ok(())
    }

    /// Deregisters the socket. A notification that arrives later finds nothing to read.
    fn deregister(&mut self, _: &AnyPoller, _: u64) {
        self.readable = None;
    }
}

impl<S> fmt::Debug for ParkedSocketEnd<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ParkedSocketEnd")
    }
}

impl<S: SimulatedSocket> AsyncRead for Adapter<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let count = ready!(self.0.poll_receive(context, buf.initialize_unfilled()))?;
        buf.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: SimulatedSocket> AsyncWrite for Adapter<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_send(context, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.end_stream();
        Poll::Ready(Ok(()))
    }
}
