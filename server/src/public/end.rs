use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context as Task, Poll, ready};

use encke_core::Timestamp;
use tokio_util::sync::WaitForCancellationFuture;

use super::{Context, NotServed};
use crate::admission::Handshake;
use crate::proxies::BadProxyHeader;
use crate::timeouts::Sleep;

/// The time that a client has for its next request.
pub(super) struct RequestTimeout {
    /// Since when it has time for its next request, on the server's clock.
    since: AtomicU64,
    /// It has shown that it has a session.
    has_session: AtomicBool,
}

impl RequestTimeout {
    pub(super) fn new(context: &Context, has_session: bool) -> Self {
        let now = context.client.timeouts.clock().now();
        Self { since: AtomicU64::new(now.as_nanos()), has_session: AtomicBool::new(has_session) }
    }

    /// The client has shown that it has a session: it has as long once more.
    pub(super) fn renew(&self, context: &Context) {
        self.since.store(context.client.timeouts.clock().now().as_nanos(), Ordering::Relaxed);
        self.has_session.store(true, Ordering::Relaxed);
    }

    fn end(&self, context: &Context) -> Timestamp {
        Timestamp::from_nanos(self.since.load(Ordering::Relaxed)) + context.handshake_timeout
    }
}

/// What ends a connection that no session has: its time is over, or somebody has it cut.
///
/// It is part of every such connection's task. As a future made of futures, it took three times the room.
pub(super) struct End<'a, 'c> {
    timeout: &'a RequestTimeout,
    context: &'a Context,
    handshake: Option<&'a Handshake>,
    stopped: Pin<&'a mut WaitForCancellationFuture<'c>>,
    at: Timestamp,
    sleep: Sleep,
}

impl<'a, 'c> End<'a, 'c> {
    pub(super) fn new(
        timeout: &'a RequestTimeout,
        handshake: Option<&'a Handshake>,
        stopped: Pin<&'a mut WaitForCancellationFuture<'c>>,
        context: &'a Context,
    ) -> Self {
        let at = timeout.end(context);
        let sleep = context.client.timeouts.sleep_until(at);
        Self { timeout, context, handshake, stopped, at, sleep }
    }

    fn poll(&mut self, task: &mut Task<'_>) -> Poll<Ended> {
        if self.poll_timeout(task).is_ready() {
            return Poll::Ready(Ended::NotServed(NotServed::Timeout));
        }
        if self.handshake.is_some_and(|handshake| handshake.poll_cut(task).is_ready()) {
            return Poll::Ready(Ended::NotServed(self.context.cut()));
        }
        self.stopped.as_mut().poll(task).map(|()| Ended::Draining)
    }

    fn poll_timeout(&mut self, task: &mut Task<'_>) -> Poll<()> {
        loop {
            ready!(Pin::new(&mut self.sleep).poll(task));
            let at = self.timeout.end(self.context);
            if at <= self.at {
                return Poll::Ready(());
            }
            self.at = at;
            self.sleep = self.context.client.timeouts.sleep_until(at);
        }
    }
}

/// Serves until there is a result, or it is to end.
pub(super) fn until<T>(
    mut serve: impl Future<Output = Result<T, NotServed>> + Unpin,
    end: &mut End<'_, '_>,
) -> impl Future<Output = Result<T, Ended>> {
    poll_fn(move |task| match Pin::new(&mut serve).poll(task) {
        Poll::Ready(served) => Poll::Ready(served.map_err(Ended::NotServed)),
        Poll::Pending => end.poll(task).map(Err),
    })
}

/// Why a connection is served no longer.
pub(super) enum Ended {
    NotServed(NotServed),
    Draining,
}

impl Ended {
    pub(super) fn tell(self, address: IpAddr, timeout: &RequestTimeout, context: &Context) {
        match self {
            Self::Draining => tracing::debug!("connection cut: draining"),
            // Some proxies look in this way whether the server is there.
            Self::NotServed(NotServed::Proxy(BadProxyHeader::Silence)) => {}
            // The pause of a client that asks for nothing more.
            Self::NotServed(NotServed::Timeout | NotServed::Gone(_))
                if timeout.has_session.load(Ordering::Relaxed) => {}
            Self::NotServed(error) => context.refused(&error, address),
        }
    }
}
