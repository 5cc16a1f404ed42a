use std::convert::Infallible;
use std::future::{Future, pending, poll_fn, ready};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use encke_core::Timestamp;
use encke_core::session::ConnectionInput;
use futures_util::future::{Either, select};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::task::yield_now;

use super::request::{Answer, Outcome};
use super::{Context, NotServed};
use crate::admission::{Handshake, OpenConnection};
use crate::http::{MAX_HEAD_BYTES, Rewound};
use crate::proxies::{BadProxyHeader, read_source};
use crate::session::{Attached, Link, SessionCell};
use crate::transport::poll::{ConnectForm, JsonForm};
use crate::transport::{TcpSocket, poll, sse};

/// A socket on which requests may come.
pub(super) enum Arriving {
    /// As it was accepted.
    Raw(TcpStream),
    /// After a poll, with what was read already.
    Again(TcpSocket, Vec<u8>, Option<Answered>),
}

/// The session of a poll that was answered on this connection, and does not say what it has.
pub(super) struct Answered {
    session: Arc<SessionCell>,
    link: Arc<Link>,
}

impl Answered {
    /// The connection has failed before the client has asked for anything else: it may not have the answer.
    fn is_lost(&self, context: &Context) {
        context.client.sessions.handle_connection(&self.session, &self.link, ConnectionInput::AnswerLost);
    }
}

/// What a request has taken the socket for.
pub(super) enum Taken {
    Events(sse::Accepted),
    Poll(poll::Accepted<JsonForm>),
    Connect(poll::Accepted<Box<ConnectForm>>),
}

/// A connection that no session has: before its first, or between two polls.
pub(super) struct Arrival<'a> {
    pub(super) context: &'a Arc<Context>,
    /// Whose it is. Behind a proxy that is the proxy, until it has named its client.
    pub(super) address: IpAddr,
    /// Until it has shown that it has a session.
    pub(super) handshake: Option<&'a Handshake>,
    pub(super) open_connection: OpenConnection,
    pub(super) timeout: &'a RequestTimeout,
}

/// The time that a client has for its next request.
pub(super) struct RequestTimeout {
    /// Since when it has time for its next request, on the server's clock.
    since: AtomicU64,
    /// It has shown that it has a session.
    has_session: AtomicBool,
}

impl RequestTimeout {
    fn new(context: &Context, has_session: bool) -> Self {
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

    /// Ready when it is over.
    async fn ends(&self, context: &Context) {
        let timeouts = &context.client.timeouts;
        loop {
            let at = self.end(context);
            timeouts.sleep_until(at).await;
            if self.end(context) <= at {
                return;
            }
        }
    }
}

/// Serves a connection in a task of its own. Until its client says something, the task is small, and nothing else is there.
pub(super) fn spawn(
    socket: Arriving,
    peer: IpAddr,
    handshake: Option<Handshake>,
    open_connection: OpenConnection,
    context: Arc<Context>,
) {
    tokio::spawn(async move {
        let timeout = RequestTimeout::new(&context, handshake.is_none());
        let handshake = handshake.as_ref();
        // One for both stages: a timer costs more than the rest of this.
        let mut end = pin!(end(&timeout, handshake, &context));
        match until(socket.readable(), end.as_mut()).await {
            Ok(()) => {
                let (context, timeout) = (&context, &timeout);
                let arrival = Arrival { context, address: peer, handshake, open_connection, timeout };
                Box::pin(arrival.serve_until(socket, end)).await;
            }
            Err(ended) => ended.tell(peer, &timeout, &context),
        }
    });
}

/// Ready when there is no more time, or somebody has the connection cut.
async fn end(timeout: &RequestTimeout, handshake: Option<&Handshake>, context: &Context) -> Ended {
    let stopped = pin!(context.stop.cancelled());
    let cut = pin!(async {
        match handshake {
            Some(handshake) => handshake.cut().await,
            None => pending().await,
        }
    });
    match select(pin!(timeout.ends(context)), select(cut, stopped)).await {
        Either::Left(_) => Ended::NotServed(NotServed::Timeout),
        Either::Right((Either::Left(_), _)) => Ended::NotServed(NotServed::Cut),
        Either::Right((Either::Right(_), _)) => Ended::Draining,
    }
}

async fn until<T>(
    serve: impl Future<Output = Result<T, NotServed>>,
    end: Pin<&mut impl Future<Output = Ended>>,
) -> Result<T, Ended> {
    match select(pin!(serve), end).await {
        Either::Left((served, _)) => served.map_err(Ended::NotServed),
        Either::Right((ended, _)) => Err(ended),
    }
}

/// Why a connection is served no longer.
enum Ended {
    NotServed(NotServed),
    Draining,
}

impl Ended {
    fn tell(self, address: IpAddr, timeout: &RequestTimeout, context: &Context) {
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

impl Arriving {
    /// Ready when there may be something to read.
    async fn readable(&self) -> Result<(), NotServed> {
        match self {
            Self::Raw(socket) => socket.readable().await,
            Self::Again(socket, read_already, _) if read_already.is_empty() => socket.readable().await,
            Self::Again(..) => Ok(()),
        }
        .map_err(NotServed::Gone)
    }
}

/// A task of its own, as small as what is left to do.
fn hand_on(
    (socket, read_already): (TcpSocket, Vec<u8>),
    taken: Taken,
    of_client: OpenConnection,
    address: IpAddr,
    open_connection: OpenConnection,
    context: &Arc<Context>,
) {
    let client = Arc::clone(&context.client);
    match taken {
        Taken::Events(accepted) => _ = tokio::spawn(sse::serve(socket, accepted, client, of_client)),
        Taken::Poll(accepted) => {
            let held = poll::serve(socket, read_already, accepted, client);
            hold(held, None, of_client, address, open_connection, Arc::clone(context));
        }
        Taken::Connect(accepted) => {
            let Attached { session, link, .. } = &accepted.attached;
            let answered = accepted
                .form
                .acknowledged
                .is_none()
                .then(|| Answered { session: Arc::clone(session), link: Arc::clone(link) });
            let held = poll::serve(socket, read_already, accepted, client);
            hold(held, answered, of_client, address, open_connection, Arc::clone(context));
        }
    }
}

/// Holds a poll, and then awaits the next request.
fn hold(
    held: impl Future<Output = Option<(TcpSocket, Vec<u8>)>> + Send + 'static,
    answered: Option<Answered>,
    of_client: OpenConnection,
    address: IpAddr,
    open_connection: OpenConnection,
    context: Arc<Context>,
) {
    tokio::spawn(async move {
        let next = held.await;
        drop(of_client);
        if let Some((socket, read_already)) = next {
            let again = Arriving::Again(socket, read_already, answered);
            spawn(again, address, None, open_connection, context);
        }
    });
}

/// The socket, what was read of the next request, what a request has taken it for, and its place among the connections of its client.
type Served = ((TcpSocket, Vec<u8>), Taken, OpenConnection);

impl Arrival<'_> {
    async fn serve_until(mut self, socket: Arriving, end: Pin<&mut impl Future<Output = Ended>>) {
        let ended = until(self.serve(socket), end).await;
        let Self { context, address, open_connection, timeout, .. } = self;
        match ended {
            Ok(Some((socket, taken, of_client))) => {
                hand_on(socket, taken, of_client, address, open_connection, context);
            }
            Ok(None) => {}
            Err(ended) => ended.tell(address, timeout, context),
        }
    }

    /// Serves requests until one of them takes the socket. A stream of events or a poll gets it back from here.
    async fn serve(&mut self, socket: Arriving) -> Result<Option<Served>, NotServed> {
        let (socket, read_already, answered) = match socket {
            Arriving::Raw(socket) => (self.accept(socket).await?, Vec::new(), None),
            Arriving::Again(socket, read_already, answered) => (socket, read_already, answered),
        };
        let this = &*self;
        let (taken, has_answered) = (Mutex::new(None), AtomicBool::new(false));
        let service = service_fn(|request| {
            // Noted at once: hyper may drop what is below without a look at it, when it finds that the client is gone. The session
            // would never learn of that.
            let note = |by| *taken.lock() = Some(by);
            let reply = match this.answer(request) {
                Answer::Reply(reply) => Some(Either::Left(ready(Outcome::Reply(reply)))),
                Answer::Later(outcome) => Some(Either::Right(outcome)),
                Answer::Taken(by, open_connection) => {
                    note((by, open_connection));
                    None
                }
            };
            let is_first = !has_answered.swap(true, Ordering::Relaxed);
            async move {
                let Some(reply) = reply else { return pending().await };
                let reply = match reply.await {
                    Outcome::Reply(reply) => reply,
                    Outcome::Taken(by, open_connection) => {
                        note((by, open_connection));
                        return pending().await;
                    }
                };
                // Requests may come by the hundred in one packet: others first.
                if !is_first {
                    yield_now().await;
                }
                Ok::<_, Infallible>(reply)
            }
        });
        let mut connection = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(Rewound::new(socket, read_already)), service)
            .with_upgrades();
        let taken = poll_fn(|context| {
            let ended = Pin::new(&mut connection).poll(context);
            match taken.lock().take() {
                Some(taken) => Poll::Ready(Ok(Some(taken))),
                None => ended.map(|ended| ended.map(|()| None).map_err(NotServed::Http)),
            }
        });
        let taken = taken.await.inspect_err(|_| {
            if let Some(answered) = answered.filter(|_| !has_answered.load(Ordering::Relaxed)) {
                answered.is_lost(this.context);
            }
        });
        let Some((taken, open_connection)) = taken? else { return Ok(None) };
        let parts = connection.into_parts().expect("it was not upgraded, for no request had that answer");
        let socket = parts.io.into_inner().into_parts(&parts.read_buf);
        Ok(Some((socket, taken, open_connection)))
    }

    /// What comes before HTTP.
    async fn accept(&mut self, socket: TcpStream) -> Result<TcpSocket, NotServed> {
        if self.context.proxies.proxy_protocol
            && let Some(client) = Box::pin(read_source(&socket)).await?
        {
            self.address = client;
            if let Some(handshake) = self.handshake {
                handshake.is_of(client);
            }
            self.open_connection = self.context.connections.enter(self.context.permit(client)?);
        }
        TcpSocket::accept(socket, self.context.tls.as_deref()).await.map_err(NotServed::Tls)
    }
}
