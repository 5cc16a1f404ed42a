use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use encke_core::Timestamp;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Socket;
use crate::session::Link;
use crate::timeouts::Timeouts;

/// A socket that notes signs of life. It sits below the frame decoder, because a large message that arrives slowly is a
/// sign of life, too.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    socket: S,
    link: Arc<Link>,
    timeouts: Arc<Timeouts>,
    /// Set while a write is held: when the kernel last took bytes.
    progress_at: Option<Timestamp>,
}

impl<S: Socket> Metered<S> {
    pub(crate) fn new(socket: S, link: Arc<Link>, timeouts: Arc<Timeouts>) -> Self {
        Self { socket, link, timeouts, progress_at: None }
    }

    /// From here on, until [`Metered::release`], it is noted when the kernel takes bytes.
    pub(crate) fn hold(&mut self) {
        self.progress_at = Some(self.timeouts.clock().now());
    }

    pub(crate) fn release(&mut self) {
        self.progress_at = None;
    }

    /// When the kernel last took bytes, or the write began to be held.
    pub(crate) fn progress_at(&self) -> Option<Timestamp> {
        self.progress_at
    }

    fn note_progress(&mut self, taken: bool) {
        if self.socket.has_sent(taken) && self.progress_at.is_some() {
            self.progress_at = Some(self.timeouts.clock().now());
        }
    }

    /// See [`Socket::give_up_after`].
    pub(crate) fn give_up_after(&self, timeout: Option<Duration>) {
        self.socket.give_up_after(timeout);
    }

    /// Asks the kernel itself whether it holds bytes: these are a sign of life, even if the runtime does not know of them
    /// yet.
    pub(crate) fn probe(&self) {
        if self.socket.holds_bytes() {
            self.link.received(self.timeouts.clock().now());
        }
    }
}

impl<S: Socket> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buf);
        // Half a record of TLS gives nothing to read, and is life all the same.
        if self.socket.has_received(buf.filled().len() > before) {
            self.link.received(self.timeouts.clock().now());
        }
        read
    }
}

impl<S: Socket> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, buf);
        self.note_progress(matches!(written, Poll::Ready(Ok(_))));
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(context);
        // The kernel has no flush. With TLS it takes here what it could not take before.
        self.note_progress(false);
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
