use std::io;

use encke_sys::Unacknowledged;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::rest::AnyPoller;

/// A client's socket, as its connection uses it: the kernel's, or one in the memory of a simulation.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send + Sized + 'static {
    /// What it is without a task.
    type AtRest: SocketAtRest;

    /// Whether the peer has ended the connection, as far as the kernel knows.
    fn is_over(&self) -> bool;

    /// Whether bytes wait to be read, as far as the kernel knows: the runtime may not know of them yet.
    fn holds_bytes(&self) -> bool;

    /// What the kernel has taken and the peer's has not acknowledged. Asked only when a deadline is due.
    fn unacknowledged(&self) -> Unacknowledged;

    /// Whether the read that just ended took bytes from the kernel; `given` says whether it gave any.
    fn has_received(&mut self, given: bool) -> bool;

    /// Whether it is the kernel's and nothing else, so that it can be used without a task.
    fn can_rest(&self) -> bool;

    /// Whether neither bytes nor an end wait to be read, as far as the kernel knows: the runtime may not know of them yet.
    fn is_silent(&self) -> bool;

    /// Takes it from the runtime.
    fn rest(self) -> io::Result<Self::AtRest>;

    /// Gives it back.
    fn wake(socket: Self::AtRest) -> io::Result<Self>;

    /// How many bytes the write or flush that just ended gave to the kernel; `taken` says how many it took.
    fn sent(&mut self, taken: usize) -> usize;
}

/// The socket of a connection without a task. All calls return at once.
pub(crate) trait SocketAtRest: std::fmt::Debug + Send + 'static {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// See [`Socket::holds_bytes`].
    fn holds_bytes(&self) -> bool;

    /// What the peer's kernel has not acknowledged.
    fn unacknowledged(&self) -> io::Result<Unacknowledged>;

    /// From now on the poller tells, by this number, when there is something to read.
    fn add_to(&mut self, poller: &AnyPoller, number: u64) -> io::Result<()>;

    /// The poller, to which it was added by this number, tells of it no more.
    fn remove_from(&mut self, poller: &AnyPoller, number: u64);
}
