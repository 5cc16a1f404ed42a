use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use encke_base::parking::AnyPoller;
use encke_base::tls::Tls;
use encke_sys::{Unacknowledged, has_unread_bytes};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::socket::{ParkedSocket, Socket};

/// Number of bytes that TLS may buffer until the kernel accepts them: one record. The server's own buffer is
/// above TLS, the kernel's below.
const TLS_BUFFER: usize = 16 * 1024;

/// Socket of a client. Without TLS, it is the bare kernel socket.
pub(crate) type TcpSocket = Either<TcpStream, Box<TlsStream<CountingStream>>>;

/// Stream below TLS. It counts the bytes that pass through, since TLS may accept bytes without passing any
/// on, and vice versa.
#[derive(Debug)]
pub(crate) struct CountingStream {
    tcp: TcpStream,
    received: bool,
    sent: usize,
}

/// Performs the TLS handshake, if TLS is configured.
pub(crate) async fn accept(tcp: TcpStream, tls: Option<&Tls>) -> io::Result<TcpSocket> {
    let Some(tls) = tls else { return Ok(Either::Left(tcp)) };
    let wire = CountingStream { tcp, received: false, sent: 0 };
    let limit = |connection: &mut rustls::ServerConnection| connection.set_buffer_limit(Some(TLS_BUFFER));
    // Box the future: otherwise, the handshake's state would be part of every connection's task.
    let stream = Box::pin(tls.acceptor().accept_with(wire, limit)).await?;
    Ok(Either::Right(Box::new(stream)))
}

/// Ready when there may be something to read. With TLS, this is always ready, since TLS may hold decrypted
/// bytes.
pub(crate) fn poll_readable(socket: &TcpSocket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
    match socket {
        Either::Left(tcp) => tcp.poll_read_ready(context),
        Either::Right(_) => Poll::Ready(Ok(())),
    }
}

/// Whether the kernel reports any of these events.
fn shows(socket: &TcpSocket, any: PollFlags) -> bool {
    let mut look = [PollFd::new(kernel_socket(socket), any)];
    // A poll that returns immediately cannot be interrupted.
    let at_once = Timespec::default();
    matches!(poll(&mut look, Some(&at_once)), Ok(1..)) && look[0].revents().intersects(any)
}

fn kernel_socket(socket: &TcpSocket) -> &TcpStream {
    match socket {
        Either::Left(tcp) => tcp,
        Either::Right(tls) => &tls.get_ref().0.tcp,
    }
}

impl Socket for TcpSocket {
    type Parked = std::net::TcpStream;

    fn descriptor(&self) -> RawFd {
        kernel_socket(self).as_raw_fd()
    }

    fn next_byte_received(&self) -> io::Result<Option<Duration>> {
        encke_sys::next_byte_received(self.descriptor())
    }

    fn last_received(&self) -> Duration {
        encke_sys::last_received(self.descriptor())
    }

    fn is_closed_by_peer(&self) -> bool {
        shows(self, PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
    }

    fn has_unread_bytes(&self) -> bool {
        has_unread_bytes(kernel_socket(self).as_raw_fd())
    }

    fn is_writable(&self) -> bool {
        shows(self, PollFlags::OUT)
    }

    /// A failed connection has nothing left to acknowledge; its next read returns the error.
    fn unacknowledged(&self) -> Unacknowledged {
        encke_sys::unacknowledged(kernel_socket(self)).unwrap_or_default()
    }

    fn has_received(&mut self, given: bool) -> bool {
        match self {
            Self::Left(_) => given,
            Self::Right(tls) => std::mem::take(&mut tls.get_mut().0.received),
        }
    }

    fn can_park(&self) -> bool {
        matches!(self, Self::Left(_))
    }

    fn is_silent(&self) -> bool {
        !shows(self, PollFlags::IN | PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
    }

    fn park(self) -> io::Result<std::net::TcpStream> {
        match self {
            Self::Left(tcp) => tcp.into_std(),
            Self::Right(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn unpark(socket: std::net::TcpStream) -> io::Result<Self> {
        TcpStream::from_std(socket).map(Self::Left)
    }

    fn sent(&mut self, taken: usize) -> usize {
        match self {
            Self::Left(_) => taken,
            Self::Right(tls) => std::mem::take(&mut tls.get_mut().0.sent),
        }
    }
}

impl ParkedSocket for std::net::TcpStream {
    fn has_unread_bytes(&self) -> bool {
        has_unread_bytes(self.as_raw_fd())
    }

    fn unacknowledged(&self) -> io::Result<Unacknowledged> {
        encke_sys::unacknowledged(self)
    }

    fn register(&mut self, poller: &AnyPoller, number: u64) -> io::Result<()> {
        poller.kernel_poller(number)?.add(&*self, number)
    }

    fn deregister(&mut self, poller: &AnyPoller, number: u64) {
        if let Ok(poller) = poller.kernel_poller(number) {
            poller.remove(&*self);
        }
    }
}

impl AsyncRead for CountingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.tcp).poll_read(context, buf))?;
        self.received |= buf.filled().len() > before;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for CountingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.tcp).poll_write(context, buf))?;
        self.sent += written;
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.tcp).poll_write_vectored(context, bufs))?;
        self.sent += written;
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}

/// Connects over the loopback interface. Returns the client's end, and the server's, which does not block.
#[cfg(test)]
pub(crate) fn connected_sockets() -> (std::net::TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    let client = std::net::TcpStream::connect(address).expect("a listener");
    let (server, _) = listener.accept().expect("a client");
    server.set_nonblocking(true).expect("a socket");
    (client, server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_socket_is_no_larger_than_a_tcp_stream() {
        assert_eq!(
            size_of::<TcpSocket>(),
            size_of::<TcpStream>(),
            "the socket is part of every connection's task"
        );
    }
}
