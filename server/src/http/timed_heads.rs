use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use encke_timeouts::{Sleep, Timeouts};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that fails if the head of a request takes longer than `timeout`, from its first byte on, or from
/// the start of the connection. hyper's own timeout includes the wait for the first byte.
#[derive(Debug)]
pub(crate) struct TimedHeads<S> {
    stream: S,
    timeout: Duration,
    timeouts: Arc<Timeouts>,
    state: RequestState,
    /// Set while a head is arriving.
    timer: Option<Box<Sleep>>,
}

/// State of a connection's current request, which hyper's service sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestState(Arc<AtomicU8>);

/// A head is arriving, or the connection is new.
const HEAD: u8 = 0;
/// A request is being handled.
const BUSY: u8 = 1;
/// The next request is awaited.
const IDLE: u8 = 2;

impl RequestState {
    pub(crate) fn begin(&self) {
        self.0.store(BUSY, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }
}

impl<S> TimedHeads<S> {
    pub(crate) fn new(stream: S, timeout: Duration, timeouts: Arc<Timeouts>, state: RequestState) -> Self {
        Self { stream, timeout, timeouts, state, timer: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for TimedHeads<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.remaining();
        let read = Pin::new(&mut self.stream).poll_read(context, buf);
        let state = &self.state.0;
        if buf.remaining() < before {
            let _ = state.compare_exchange(IDLE, HEAD, Ordering::Relaxed, Ordering::Relaxed);
        }
        if state.load(Ordering::Relaxed) != HEAD {
            self.timer = None;
            return read;
        }
        if self.timer.is_none() {
            self.timer = Some(Box::new(self.timeouts.sleep(self.timeout)));
        }
        let timer = self.timer.as_mut().expect("just created");
        if read.is_pending() && Pin::new(&mut **timer).poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for TimedHeads<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
