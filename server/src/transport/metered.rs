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
pub(crate) struct Metered {
    socket: Socket,
    link: Arc<Link>,
    timeouts: Arc<Timeouts>,
    /// Set while a write is held: when the kernel last took bytes.
    progress_at: Option<Timestamp>,
}

impl Metered {
    pub(crate) fn new(socket: Socket, link: Arc<Link>, timeouts: Arc<Timeouts>) -> Self {
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

    /// Has the kernel give the connection up when the peer acknowledges nothing for so long, or has no room: or never.
    pub(crate) fn give_up_after(&self, timeout: Option<Duration>) {
        if let Err(error) = socket2::SockRef::from(self.socket.tcp()).set_tcp_user_timeout(timeout) {
            tracing::debug!(%error, "TCP_USER_TIMEOUT cannot be set");
        }
    }

    /// Asks the kernel itself whether it holds bytes: what it holds is life, even if the runtime has not been told
    /// of it yet.
    pub(crate) fn probe(&self) {
        let mut byte = [std::mem::MaybeUninit::uninit()];
        if matches!(socket2::SockRef::from(self.socket.tcp()).peek(&mut byte), Ok(1..)) {
            self.link.heard(self.timeouts.clock().now());
        }
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(context, buf);
        // Half a record of TLS gives nothing to read, and is life all the same.
        if self.socket.has_received(buf.filled().len() > before) {
            self.link.heard(self.timeouts.clock().now());
        }
        read
    }
}

impl AsyncWrite for Metered {
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
