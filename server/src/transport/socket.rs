use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

/// A client's socket, as its connection uses it: the kernel's, or one in the memory of a simulation.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Whether the peer has ended the connection, as far as the kernel knows.
    fn is_over(&self) -> bool;

    /// Whether bytes wait to be read, as far as the kernel knows: the runtime may not know of them yet.
    fn holds_bytes(&self) -> bool;

    /// Has the kernel give the connection up when the peer acknowledges nothing for so long, or has no room: or never.
    fn give_up_after(&self, timeout: Option<Duration>);

    /// Whether the read that just ended took bytes from the kernel; `given` says whether it gave any.
    fn has_received(&mut self, given: bool) -> bool;

    /// Whether the write or flush that just ended gave bytes to the kernel; `taken` says whether it took any.
    fn has_sent(&mut self, taken: bool) -> bool;
}
