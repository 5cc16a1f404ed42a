use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use encke_sys::Unacknowledged;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::rest::AnyPoller;
use crate::transport::{self, SocketAtRest};

/// A socket in memory: the few calls that connections make.
pub trait Socket: Unpin + Send + 'static {
    /// Reads what there is; zero bytes at the end of the stream.
    fn poll_receive(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Writes what there is room for.
    fn poll_send(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;

    /// Ends the outgoing stream.
    fn end_stream(&mut self);

    /// Whether bytes wait to be read.
    fn holds_bytes(&self) -> bool;

    /// Whether the peer has ended the connection, as far as this end knows.
    fn is_over(&self) -> bool;

    /// What the peer's kernel has not acknowledged.
    fn unacknowledged(&self) -> Unacknowledged;

    /// Whether its connection may rest. Only then, what follows is asked.
    fn can_rest(&self) -> bool {
        false
    }

    /// Ready when there is something to read, be it the end.
    fn poll_readable(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// No task has it from now on.
    fn rests(&mut self) {}

    /// The task that is spawned next has it.
    fn wakes(&mut self) {}
}

impl Socket for Box<dyn Socket> {
    fn poll_receive(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        (**self).poll_receive(context, into)
    }

    fn poll_send(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        (**self).poll_send(context, bytes)
    }

    fn end_stream(&mut self) {
        (**self).end_stream();
    }

    fn holds_bytes(&self) -> bool {
        (**self).holds_bytes()
    }

    fn is_over(&self) -> bool {
        (**self).is_over()
    }

    fn unacknowledged(&self) -> Unacknowledged {
        (**self).unacknowledged()
    }

    fn can_rest(&self) -> bool {
        (**self).can_rest()
    }

    fn poll_readable(&mut self, context: &mut Context<'_>) -> Poll<()> {
        (**self).poll_readable(context)
    }

    fn rests(&mut self) {
        (**self).rests();
    }

    fn wakes(&mut self) {
        (**self).wakes();
    }
}

/// What connections see of it.
pub(super) struct Adapter<S>(pub(super) S);

impl<S: Socket> transport::Socket for Adapter<S> {
    type AtRest = AtRest<S>;

    fn is_over(&self) -> bool {
        self.0.is_over()
    }

    fn holds_bytes(&self) -> bool {
        self.0.holds_bytes()
    }

    fn unacknowledged(&self) -> Unacknowledged {
        self.0.unacknowledged()
    }

    fn has_received(&mut self, given: bool) -> bool {
        given
    }

    fn can_rest(&self) -> bool {
        self.0.can_rest()
    }

    fn is_silent(&self) -> bool {
        !self.0.holds_bytes() && !self.0.is_over()
    }

    fn rest(mut self) -> io::Result<AtRest<S>> {
        self.0.rests();
        Ok(AtRest { socket: self.0, readable: None })
    }

    fn wake(AtRest { mut socket, readable }: AtRest<S>) -> io::Result<Self> {
        // The kernel would tell of it again and again, and refuse to take it a second time.
        assert!(readable.is_none(), "a socket goes back to a task, and is still looked at");
        socket.wakes();
        Ok(Self(socket))
    }

    fn sent(&mut self, taken: usize) -> usize {
        taken
    }
}

/// What is left of it at rest.
pub(super) struct AtRest<S> {
    socket: S,
    /// To be told that there is something to read, while someone looks.
    readable: Option<Waker>,
}

impl<S: Socket> AtRest<S> {
    /// If there is something to read, that is told now, and otherwise once there is.
    fn tell(&mut self) {
        let Self { socket, readable: Some(readable) } = self else { return };
        if socket.poll_readable(&mut Context::from_waker(readable)).is_ready() {
            readable.wake_by_ref();
        }
    }
}

impl<S: Socket> SocketAtRest for AtRest<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.socket.poll_receive(&mut Context::from_waker(Waker::noop()), into);
        self.tell();
        match read {
            Poll::Ready(read) => read,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.socket.poll_send(&mut Context::from_waker(Waker::noop()), bytes) {
            Poll::Ready(taken) => taken,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn holds_bytes(&self) -> bool {
        self.socket.holds_bytes()
    }

    fn unacknowledged(&self) -> io::Result<Unacknowledged> {
        Ok(self.socket.unacknowledged())
    }

    fn add_to(&mut self, poller: &AnyPoller, number: u64) -> io::Result<()> {
        let AnyPoller::Simulated(poller) = poller else { return Err(io::ErrorKind::Unsupported.into()) };
        self.readable = Some(poller.tells(number));
        self.tell();
        Ok(())
    }

    /// What is told all the same finds nothing to read.
    fn remove_from(&mut self, _: &AnyPoller, _: u64) {
        self.readable = None;
    }
}

impl<S> fmt::Debug for AtRest<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AtRest")
    }
}

impl<S: Socket> AsyncRead for Adapter<S> {
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

impl<S: Socket> AsyncWrite for Adapter<S> {
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
