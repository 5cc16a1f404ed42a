use std::io;
use std::net::TcpStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use encke_sys::Unacknowledged;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transport;

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
}

/// What connections see of it.
pub(super) struct Adapter<S>(pub(super) S);

impl<S: Socket> transport::Socket for Adapter<S> {
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
        false
    }

    fn is_silent(&self) -> bool {
        !self.0.holds_bytes() && !self.0.is_over()
    }

    fn rest(self) -> io::Result<TcpStream> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn wake(_: TcpStream) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sent(&mut self, taken: usize) -> usize {
        taken
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
