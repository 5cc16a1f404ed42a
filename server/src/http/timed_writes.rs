use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use encke_timeouts::{Sleep, Timeouts};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ErrorBodies;

/// A stream whose writes fail if the peer accepts nothing for `timeout`. Otherwise, a client that sends a
/// request and does not read would keep the response in memory forever.
#[derive(Debug)]
pub(crate) struct TimedWrites<S> {
    stream: S,
    timeout: Duration,
    timeouts: Arc<Timeouts>,
    /// Set while the peer accepts nothing.
    timer: Option<Box<Sleep>>,
    errors: ErrorBodies,
}

impl<S> TimedWrites<S> {
    pub(crate) fn new(stream: S, timeout: Duration, timeouts: Arc<Timeouts>) -> Self {
        Self { stream, timeout, timeouts, timer: None, errors: ErrorBodies::default() }
    }

    fn apply_timeout<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let held = self.timer.get_or_insert_with(|| Box::new(self.timeouts.sleep(self.timeout)));
        match Pin::new(&mut **held).poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedWrites<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { stream, errors, .. } = &mut *self;
        let written = errors.poll_write(buf, |bytes| Pin::new(&mut *stream).poll_write(context, bytes));
        self.apply_timeout(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.apply_timeout(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.apply_timeout(context, shut)
    }
}
