use std::io;
use std::os::fd::RawFd;

use encke_sys::Unacknowledged;
use tokio::io::{AsyncRead, AsyncWrite};

use encke_base::parking::AnyPoller;

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
