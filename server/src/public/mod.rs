//! The listener for clients: the WebSocket upgrade, and the request for a stream of events.

mod events;
mod query;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};
use hyper::body::Incoming;
use hyper::header::{HeaderValue, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;

use tokio_util::sync::CancellationToken;

use crate::admission::{
    Handshake, Handshakes, OpenConnection, OpenConnections, Permit, Permits, RefusalReason,
};
use crate::client::{self, Caller};
use crate::http::{ApiError, MAX_HEAD_BYTES, Reply};
use crate::proxies::{BadProxyHeader, Proxies, read_source};
use crate::tls::Tls;
use crate::transport::websocket::{self, Upgrade, Upgraded};
use crate::transport::{TcpSocket, sse};
#[cfg(feature = "simulation")]
pub(crate) use events::accept as accept_events;
pub(crate) use query::parse_query;

/// What every connection of the public listener shares.
pub(crate) struct Context {
    pub(crate) client: Arc<client::Context>,
    pub(crate) proxies: Proxies,
    pub(crate) tls: Option<Arc<Tls>>,
    /// How long a connection may take to become a session's.
    pub(crate) handshake_timeout: Duration,
    /// Sockets by address, if the connections of one address are limited.
    pub(crate) sockets: Option<Arc<Permits>>,
    pub(crate) handshakes: Arc<Handshakes>,
    pub(crate) connections: OpenConnections,
    /// Set when the server drains.
    pub(crate) stop: CancellationToken,
}

impl Context {
    /// A permit for a socket from this address, where sockets of an address are limited.
    fn permit(&self, address: IpAddr) -> Result<Option<Permit>, NotServed> {
        match &self.sockets {
            // Each client behind a proxy counts for itself, once it is known.
            Some(sockets) if !self.proxies.trust(address) => match sockets.take(address) {
                Some(permit) => Ok(Some(permit)),
                None => Err(NotServed::Address),
            },
            _ => Ok(None),
        }
    }

    fn refused(&self, error: &NotServed, address: IpAddr) {
        self.client.refusals.refused(error.reason(), address, error);
    }
}

/// Why a connection ended before it had a session.
#[derive(Debug, thiserror::Error)]
enum NotServed {
    #[error("limits.max_connections_per_address")]
    Address,
    #[error("not one of listen.trusted_proxies")]
    Elsewhere,
    #[error(transparent)]
    Proxy(#[from] BadProxyHeader),
    #[error("{0}")]
    Gone(std::io::Error),
    #[error("TLS: {0}")]
    Tls(std::io::Error),
    #[error("{0}")]
    Http(hyper::Error),
    #[error("limits.handshake_timeout")]
    Timeout,
    #[error("limits.max_handshakes")]
    Cut,
}

impl NotServed {
    fn reason(&self) -> RefusalReason {
        match self {
            Self::Address => RefusalReason::Address,
            Self::Elsewhere | Self::Proxy(_) => RefusalReason::Proxy,
            Self::Tls(_) => RefusalReason::Tls,
            Self::Gone(_) | Self::Http(_) => RefusalReason::Http,
            Self::Timeout => RefusalReason::HandshakeTimeout,
            Self::Cut => RefusalReason::Handshakes,
        }
    }
}

/// Serves HTTP/1.1 on one connection, within TLS if that is configured. After `handshake_timeout` the connection has a
/// session or is cut, even if the client sends nothing, or half a request, or does not read its answers.
///
/// HTTP/1.1 alone, because hyper-util's `auto` builder has no timeout while it guesses the version.
pub(crate) fn serve(socket: TcpStream, peer: SocketAddr, context: Arc<Context>) {
    let peer = peer.ip();
    if context.proxies.proxy_protocol && !context.proxies.trust(peer) {
        return context.refused(&NotServed::Elsewhere, peer);
    }
    let permit = match context.permit(peer) {
        Ok(permit) => permit,
        Err(error) => return context.refused(&error, peer),
    };
    // Counted before the task first runs, so that a drain does not overlook it.
    let open_connection = context.connections.enter(permit);
    let handshake = context.handshakes.begin(peer);
    tokio::spawn(async move {
        let timeout = context.client.timeouts.sleep(context.handshake_timeout);
        let mut arrival =
            Arrival { context: &context, address: peer, handshake: &handshake, open_connection };
        let stopped = pin!(context.stop.cancelled());
        let cut = pin!(handshake.cut());
        let ended = match select(Box::pin(arrival.serve(socket)), select(timeout, select(cut, stopped))).await
        {
            Either::Left((ended, _)) => ended,
            Either::Right((Either::Left(_), _)) => Err(NotServed::Timeout),
            Either::Right((Either::Right((Either::Left(_), _)), _)) => Err(NotServed::Cut),
            Either::Right((Either::Right((Either::Right(_), _)), _)) => {
                return tracing::debug!("connection cut: draining");
            }
        };
        match ended {
            // A task of its own, as small as what is left to do.
            Ok(Some((socket, accepted, open_connection))) => {
                tokio::spawn(sse::serve(socket, accepted, Arc::clone(&context.client), open_connection));
            }
            // Some proxies look in this way whether the server is there.
            Ok(None) | Err(NotServed::Proxy(BadProxyHeader::Silence)) => {}
            Err(error) => context.refused(&error, arrival.address),
        }
    });
}

/// A connection that has no session yet.
struct Arrival<'a> {
    context: &'a Arc<Context>,
    /// Whose it is. Behind a proxy that is the proxy, until it has named its client.
    address: IpAddr,
    handshake: &'a Handshake,
    open_connection: OpenConnection,
}

/// A socket that a request for a stream of events has taken.
type Taken = (TcpSocket, sse::Accepted, OpenConnection);

/// What a request gets.
enum Answer {
    Reply(Reply),
    /// The socket itself, for a stream of events.
    Events(sse::Accepted, OpenConnection),
}

impl Arrival<'_> {
    /// Serves requests until one of them takes the socket. A stream of events gets it back from here.
    async fn serve(&mut self, socket: TcpStream) -> Result<Option<Taken>, NotServed> {
        // Without a buffer, until there is something to put into it.
        socket.readable().await.map_err(NotServed::Gone)?;
        if self.context.proxies.proxy_protocol
            && let Some(client) = Box::pin(read_source(&socket)).await?
        {
            self.address = client;
            self.handshake.is_of(client);
            self.open_connection = self.context.connections.enter(self.context.permit(client)?);
        }
        let this = &*self;
        let (accepted, has_answered) = (Mutex::new(None), AtomicBool::new(false));
        let service = service_fn(|request| {
            let reply = match this.answer(request) {
                Answer::Reply(reply) => Some(reply),
                Answer::Events(events, open_connection) => {
                    *accepted.lock() = Some((events, open_connection));
                    None
                }
            };
            let is_first = !has_answered.swap(true, Ordering::Relaxed);
            async move {
                let Some(reply) = reply else { return std::future::pending().await };
                // Requests may come by the hundred in one packet: others first.
                if !is_first {
                    yield_now().await;
                }
                Ok::<_, Infallible>(reply)
            }
        });
        let socket = TcpSocket::accept(socket, self.context.tls.as_deref()).await.map_err(NotServed::Tls)?;
        let mut connection = http1::Builder::new()
            .max_buf_size(MAX_HEAD_BYTES)
            .serve_connection(TokioIo::new(socket), service)
            .with_upgrades();
        let accepted = poll_fn(|context| {
            let ended = Pin::new(&mut connection).poll(context);
            match accepted.lock().take() {
                Some(accepted) => Poll::Ready(Ok(Some(accepted))),
                None => ended.map(|ended| ended.map(|()| None).map_err(NotServed::Http)),
            }
        });
        let Some((accepted, open_connection)) = accepted.await? else { return Ok(None) };
        let parts = connection.into_parts().expect("it was not upgraded, for it waits for our answer");
        Ok(Some((parts.io.into_inner(), accepted, open_connection)))
    }

    fn answer(&self, request: Request<Incoming>) -> Answer {
        let context = &self.context.client;
        let address = self.context.proxies.client_of(self.address, request.headers());
        let open_connection = match self.entered(address) {
            Ok(open_connection) => open_connection,
            Err(error) => {
                self.context.refused(&error, address);
                let message = format!("too many connections from one address ({error})");
                return Answer::Reply(
                    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", message).into(),
                );
            }
        };
        if let Err(error) = context.auth.hosts.allow(request.headers(), context.auth.needs_token()) {
            context.refusals.refused(RefusalReason::Host, address, error);
            return Answer::Reply(ApiError::from(error).into());
        }
        let caller = || Caller::of(&request, address, &context.auth);
        let reply = match (request.uri().path(), request.method()) {
            ("/ws", &Method::GET) => self.upgrade(request, address, open_connection),
            ("/events", &Method::GET) => match events::accept(&request, &caller(), context) {
                Ok(accepted) => return Answer::Events(accepted, open_connection),
                Err(reply) => *reply,
            },
            ("/events", &Method::OPTIONS) => events::preflight(&caller(), request.headers()),
            ("/ws", _) => ApiError::method_not_allowed("GET").into(),
            ("/events", _) => ApiError::method_not_allowed("GET, OPTIONS").into(),
            (path, _) => {
                let message = format!(
                    "no such path: {path}; clients connect to /ws (WebSocket) or /events (server-sent events)"
                );
                ApiError::not_found(message).into()
            }
        };
        Answer::Reply(reply)
    }

    /// The connection, as that of this client: on one connection, a proxy may send the requests of many.
    fn entered(&self, client: IpAddr) -> Result<OpenConnection, NotServed> {
        if self.context.proxies.forwarded.is_some() {
            self.handshake.is_of(client);
        }
        if client == self.address {
            return Ok(self.open_connection.clone());
        }
        Ok(self.context.connections.enter(self.context.permit(client)?))
    }

    fn upgrade(
        &self,
        mut request: Request<Incoming>,
        address: IpAddr,
        open_connection: OpenConnection,
    ) -> Reply {
        let reply = match create_response_with_body(&request, Default::default) {
            Ok(reply) => reply,
            Err(error) => {
                let mut reply = Reply::from(ApiError::new(
                    StatusCode::UPGRADE_REQUIRED,
                    "upgrade_required",
                    format!("not a WebSocket upgrade: {error}"),
                ));
                reply.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
                reply.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
                return reply;
            }
        };
        let wanted = parse_query(request.uri().query().unwrap_or_default());
        let caller = Caller::of(&request, address, &self.context.client.auth);
        let upgraded = take_socket(hyper::upgrade::on(&mut request));
        let upgrade = Upgrade { caller, wanted, open_connection };
        // A task of its own: hyper's, with its buffers, ends with the upgrade and is freed.
        tokio::spawn(websocket::serve(upgrade, upgraded, Arc::clone(&self.context.client)));
        reply
    }
}

/// Takes the socket over from hyper, with what hyper has read already.
async fn take_socket(on_upgrade: OnUpgrade) -> Option<Upgraded<TcpSocket>> {
    let upgraded = match on_upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => {
            tracing::debug!(%error, "the upgrade failed");
            return None;
        }
    };
    let parts = upgraded.downcast::<TokioIo<TcpSocket>>().expect("hyper was given a TcpSocket in a TokioIo");
    // A copy, though it is usually empty: tungstenite would go on using the memory, which is hyper's whole buffer.
    Some((parts.io.into_inner(), parts.read_buf.to_vec()))
}
