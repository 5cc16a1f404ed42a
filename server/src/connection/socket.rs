use std::io;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use encke_sys::Unacknowledged;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use encke_base::parking::AnyPoller;

/// Reads from a socket. If `received` is `None`, sets it to the time at which the kernel received the first byte. The
/// time is also set by a read that is pending because it took only part of a TLS record.
pub(crate) fn poll_read_with_time(
    socket: &mut impl Socket,
    task: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
    received: &mut Option<Duration>,
) -> Poll<io::Result<()>> {
    if received.is_none() {
        // After the read, the kernel no longer knows the time.
        *received = socket.next_byte_received()?;
    }
    let before = buf.filled().len();
    ready!(Pin::new(&mut *socket).poll_read(task, buf))?;
    if buf.filled().len() > before {
        received.get_or_insert_with(|| socket.last_received());
    }
    Poll::Ready(Ok(()))
}

/// Socket of an active connection: a kernel socket, or one in the memory of a simulation.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send + Sized + 'static {
    /// Form of the socket while its connection is parked.
    type Parked: ParkedSocket;

    /// The socket's file descriptor. Negative if this is not a kernel socket.
    fn descriptor(&self) -> RawFd;

    /// Whether the peer has ended the connection, according to the kernel.
    fn is_closed_by_peer(&self) -> bool;

    /// Whether the kernel holds unread bytes. The runtime may not know of them yet.
    fn has_unread_bytes(&self) -> bool;

    /// Returns the time at which the kernel received the next unread byte. `None` if no byte is unread, or if the
    /// kernel has not recorded the time.
    ///
    /// # Errors
    /// The connection's error, which the next read then no longer returns.
    fn next_byte_received(&self) -> io::Result<Option<Duration>>;

    /// Returns the time at which the kernel last received data, accurate to some milliseconds, but never too early.
    fn last_received(&self) -> Duration;

    /// Whether the kernel would accept bytes. The runtime may not know it yet.
    fn is_writable(&self) -> bool;

    /// Returns the bytes that our kernel has accepted and the peer's kernel has not acknowledged. Called only
    /// when a deadline is due.
    fn unacknowledged(&self) -> Unacknowledged;

    /// Whether the read that just finished took bytes from the kernel. `given` is whether it returned any.
    fn has_received(&mut self, given: bool) -> bool;

    /// Whether this is a bare kernel socket, which can be used without a task.
    fn can_park(&self) -> bool;

    /// Whether the kernel holds neither unread bytes nor the end of the stream. The runtime may not know yet
    /// what the kernel holds.
    fn is_silent(&self) -> bool;

    /// Removes the socket from the runtime.
    fn park(self) -> io::Result<Self::Parked>;

    /// Adds a parked socket to the runtime again.
    fn unpark(socket: Self::Parked) -> io::Result<Self>;

    /// Returns how many bytes the write or flush that just finished passed to the kernel. `taken` is the
    /// number that it accepted.
    fn sent(&mut self, taken: usize) -> usize;
}

/// Socket of a parked connection. No method blocks.
pub(crate) trait ParkedSocket: io::Read + io::Write + std::fmt::Debug + Send + 'static {
    /// See [`Socket::has_unread_bytes`].
    fn has_unread_bytes(&self) -> bool;

    /// Returns the bytes that the peer's kernel has not acknowledged.
    fn unacknowledged(&self) -> io::Result<Unacknowledged>;

    /// Registers the socket with `poller`, which identifies it by this number when it reports input.
    fn register(&mut self, poller: &AnyPoller, number: u64) -> io::Result<()>;

    /// Removes the socket from `poller`. `number` is the number that it was registered with.
    fn deregister(&mut self, poller: &AnyPoller, number: u64);
}
