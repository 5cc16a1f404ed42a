use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use encke_core::Timestamp;
use encke_sys::{has_unread_bytes, last_received, next_byte_received};
use encke_timeouts::Sleep;
use tokio_util::sync::WaitForCancellationFuture;

use super::context::{Context, NotServed};
use super::shared_socket::SocketProgress;
use crate::admission::Handshake;
use crate::http::proxies::BadProxyHeader;
use crate::session::Arrival;

/// No byte of a connection's first request has arrived.
const UNUSED: u8 = 0;
/// No byte of the next request has arrived on a connection that has been used before.
const IDLE: u8 = 1;
/// The first byte of the request has arrived.
const BEGUN: u8 = 2;

/// Time limit and [`Arrival`] of a client's next request. The limit is `handshake_timeout`, or
/// `keep_alive_timeout` until its first byte arrives on a connection that has been used before.
pub(super) struct RequestTimeout {
    /// Start of the time limit in nanoseconds, on the server's clock.
    start: AtomicU64,
    /// [`UNUSED`], [`IDLE`] or [`BEGUN`].
    progress: AtomicU8,
    is_held: AtomicBool,
    /// Whether the request is complete and the response is not: the client is not silent.
    is_answering: AtomicBool,
    /// Whether the client has shown that it has a session.
    has_session: AtomicBool,
    /// The request's [`Arrival`], as bits. Set when the server notices the request's first bytes.
    arrival: AtomicU64,
    /// Descriptor of the socket, which stays open as long as requests may arrive on it. Negative for a
    /// simulated socket.
    descriptor: RawFd,
}

impl RequestTimeout {
    pub(super) fn new(context: &Context, descriptor: RawFd) -> Self {
        let now = context.client.timeouts.clock().now();
        Self {
            start: AtomicU64::new(now.as_nanos()),
            progress: AtomicU8::new(UNUSED),
            is_held: AtomicBool::new(false),
            is_answering: AtomicBool::new(false),
            has_session: AtomicBool::new(false),
            arrival: AtomicU64::default(),
            descriptor,
        }
    }

    pub(super) fn arrival(&self) -> Arrival {
        Arrival::from_bits(self.arrival.load(Ordering::Relaxed))
    }

    /// Creates the time limit for the request after a poll. `received` is when its first bytes arrived, if they were
    /// already read.
    pub(super) fn after_poll(context: &Context, descriptor: RawFd, received: Option<Duration>) -> Self {
        let timeout = Self::new(context, descriptor);
        timeout.has_session.store(true, Ordering::Relaxed);
        timeout.progress.store(IDLE, Ordering::Relaxed);
        if let Some(received) = received {
            timeout.request_arrives(received, context);
        }
        timeout
    }

    /// Lets the next bytes determine the arrival, because those that have arrived on a new connection may belong to a
    /// PROXY header or a TLS handshake.
    pub(super) fn await_first_request(&self) {
        self.progress.store(UNUSED, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.progress.load(Ordering::Relaxed) == IDLE
    }

    /// Restarts the time limit, because the client has shown that it has a session.
    pub(super) fn renew(&self, context: &Context) {
        self.restart(context);
        self.has_session.store(true, Ordering::Relaxed);
    }

    /// Keeps the connection from being evicted until the guard is dropped. A client may have caused the work
    /// only with a complete request.
    pub(super) fn answering(&self) -> AnsweringGuard<'_> {
        self.is_answering.store(true, Ordering::Relaxed);
        AnsweringGuard(self)
    }

    /// Begins to wait for the next request, because the last one was answered.
    pub(super) fn await_request(&self, context: &Context) {
        self.restart(context);
        self.progress.store(IDLE, Ordering::Relaxed);
    }

    /// Records that the kernel has received bytes of the next request at this time. The first ones end the wait for it,
    /// and determine its arrival.
    pub(super) fn request_arrives(&self, received: Duration, context: &Context) {
        let before = self.progress.swap(BEGUN, Ordering::Relaxed);
        if before == IDLE {
            self.restart(context);
        }
        if before != BEGUN {
            self.arrival.store(Arrival::at(received).to_bits(), Ordering::Relaxed);
        }
    }

    /// Notes what hyper has read and written. While the client has yet to read the response, the shorter limit
    /// applies.
    pub(super) fn note_progress(&self, progress: SocketProgress, context: &Context) {
        if let Some(received) = progress.received {
            self.request_arrives(received, context);
        }
        self.is_held.store(progress.is_held, Ordering::Relaxed);
    }

    fn restart(&self, context: &Context) {
        self.start.store(context.client.timeouts.clock().now().as_nanos(), Ordering::Relaxed);
    }

    fn deadline(&self, context: &Context) -> Timestamp {
        let is_idle = self.is_idle() && !self.is_held.load(Ordering::Relaxed);
        let limit =
            if is_idle { context.client.settings.keep_alive_timeout } else { context.handshake_timeout };
        Timestamp::from_nanos(self.start.load(Ordering::Relaxed)) + limit
    }
}

/// See [`RequestTimeout::answering`].
pub(super) struct AnsweringGuard<'a>(&'a RequestTimeout);

impl Drop for AnsweringGuard<'_> {
    fn drop(&mut self) {
        self.0.is_answering.store(false, Ordering::Relaxed);
    }
}

/// Decides when to close a connection without a session: when its time limit elapses, it is evicted, or the
/// server drains. A client whose first bytes the server has not read yet is not closed for being silent.
///
/// This is part of every such connection's task. As a composition of futures, it took three times as much
/// memory.
pub(super) struct ConnectionDeadline<'a, 'c> {
    timeout: &'a RequestTimeout,
    context: &'a Context,
    handshake: &'a Handshake,
    stopped: Pin<&'a mut WaitForCancellationFuture<'c>>,
    at: Timestamp,
    sleep: Sleep,
    /// Whether the first bytes are being read.
    is_reading: bool,
}

impl<'a, 'c> ConnectionDeadline<'a, 'c> {
    pub(super) fn new(
        timeout: &'a RequestTimeout,
        handshake: &'a Handshake,
        stopped: Pin<&'a mut WaitForCancellationFuture<'c>>,
        context: &'a Context,
    ) -> Self {
        let at =
            timeout.deadline(context).min(context.client.timeouts.clock().now() + context.handshake_timeout);
        let sleep = context.client.timeouts.sleep_until(at);
        Self { timeout, context, handshake, stopped, at, sleep, is_reading: false }
    }

    /// Called when the first bytes are about to be read. From now on, unread bytes extend the time limit only
    /// between requests.
    pub(super) fn begin_reading(&mut self) {
        self.is_reading = true;
    }

    fn poll(&mut self, task: &mut Task<'_>) -> Poll<NotServed> {
        if self.poll_timeout(task).is_ready() {
            return Poll::Ready(NotServed::Timeout);
        }
        let is_answering = self.timeout.is_answering.load(Ordering::Relaxed);
        if self.is_reading && !is_answering {
            self.handshake.end_deferral();
        }
        if self.handshake.poll_evicted(task, || is_answering || self.has_unread_bytes()).is_ready() {
            return Poll::Ready(self.context.eviction_reason());
        }
        self.stopped.as_mut().poll(task).map(|()| NotServed::Draining)
    }

    fn has_unread_bytes(&self) -> bool {
        has_unread_bytes(self.timeout.descriptor)
    }

    /// Sleeps for at most `handshake_timeout`, so that the sleep of an idle connection does not have to be
    /// shortened when a request arrives.
    fn poll_timeout(&mut self, task: &mut Task<'_>) -> Poll<()> {
        loop {
            ready!(Pin::new(&mut self.sleep).poll(task));
            if (!self.is_reading || self.timeout.is_idle()) && self.has_unread_bytes() {
                let descriptor = self.timeout.descriptor;
                // An error is also reported by the next read, because there are unread bytes.
                let received = next_byte_received(descriptor).ok().flatten();
                let received = received.unwrap_or_else(|| last_received(descriptor));
                self.timeout.restart(self.context);
                self.timeout.request_arrives(received, self.context);
            }
            let deadline = self.timeout.deadline(self.context);
            if deadline <= self.at {
                return Poll::Ready(());
            }
            self.at = deadline.min(self.at + self.context.handshake_timeout);
            self.sleep = self.context.client.timeouts.sleep_until(self.at);
        }
    }
}

/// Polls `serve` until it has a result or the connection must end.
pub(super) fn serve_until<T>(
    mut serve: impl Future<Output = T> + Unpin,
    end: &mut ConnectionDeadline<'_, '_>,
) -> impl Future<Output = Result<T, NotServed>> {
    poll_fn(move |task| match Pin::new(&mut serve).poll(task) {
        Poll::Ready(served) => Poll::Ready(Ok(served)),
        Poll::Pending => end.poll(task).map(Err),
    })
}

impl NotServed {
    pub(super) fn report(self, address: IpAddr, timeout: &RequestTimeout, context: &Context) {
        match self {
            Self::Draining => tracing::debug!("connection closed: draining"),
            // Some proxies check the server in this way, so do not report it.
            Self::Proxy(BadProxyHeader::Empty) => {}
            // A client need not send another request.
            Self::Timeout if timeout.is_idle() => {}
            Self::Timeout | Self::ConnectionLost(_) | Self::Evicted | Self::NoDescriptor
                if timeout.has_session.load(Ordering::Relaxed) => {}
            error => context.report_refusal(&error, address),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::client::test_services::on_slow_engine;
    use crate::config::Settings;
    use crate::server::assembly;

    #[test]
    fn first_bytes_of_a_request_determine_its_arrival() {
        let config = Settings::default().resolve().expect("the defaults are valid");
        let context = assembly::public(&config, Arc::new(on_slow_engine().0), CancellationToken::new());
        let at = Duration::from_nanos;
        let assert_arrives_at = |timeout: &RequestTimeout, nanos| {
            for later in [0, 1, 1_000] {
                timeout.request_arrives(at(nanos + later), &context);
                assert_eq!(timeout.arrival(), Arrival::at(at(nanos)));
            }
        };
        let timeout = RequestTimeout::new(&context, -1);
        assert_arrives_at(&timeout, 1);
        timeout.await_first_request();
        assert_arrives_at(&timeout, 20);
        timeout.await_request(&context);
        // The kernel received it before the previous request.
        assert_arrives_at(&timeout, 10);
        assert_arrives_at(&RequestTimeout::after_poll(&context, -1, None), 30);
        let pipelined = RequestTimeout::after_poll(&context, -1, Some(at(5)));
        pipelined.request_arrives(at(40), &context);
        assert!(pipelined.arrival().precedes(timeout.arrival()));
    }
}
