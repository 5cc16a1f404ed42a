//! What clients see: the WebSocket upgrade, and the stream of events.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use futures_util::future::{Either, select};
use hyper::body::Incoming;
use hyper::header::{HeaderValue, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;

use super::{ApiError, Reply};
use crate::server::Shared;
use crate::shutdown::OpenConnection;
use crate::transport::websocket::{self, Upgrade};
use crate::transport::{Caller, TcpSocket, sse};

/// Why a connection ended before it was a session's.
#[derive(Debug, thiserror::Error)]
enum NotServed {
    #[error("TLS: {0}")]
    Tls(std::io::Error),
    #[error("{0}")]
    Http(hyper::Error),
}

/// Serves HTTP/1.1, within TLS if that is configured, on one connection. Whatever it asks for, after `handshake_timeout`
/// it is a session's or cut: also a client that sends nothing, or half a request, or does not read its answers.
///
/// HTTP/1.1 alone, because hyper-util's `auto` builder has no timeout while it guesses the version.
pub(crate) fn serve(socket: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    let place = match &shared.sockets {
        Some(sockets) => match sockets.take(peer.ip()) {
            Some(place) => Some(place),
            None => return tracing::debug!("connection cut: limits.max_connections_per_address"),
        },
        None => None,
    };
    // Counted before the task first runs, so that a drain does not overlook it.
    let open_connection = shared.connections.enter(place);
    tokio::spawn(async move {
        let patience = shared.timeouts.sleep(shared.config.limits.handshake_timeout);
        let request = Box::pin(serve_http(socket, peer, &shared, &open_connection));
        let stopped = pin!(shared.stop_accepting.wait());
        let ended = match select(request, select(pin!(patience), stopped)).await {
            Either::Left((ended, _)) => ended,
            Either::Right((Either::Left(_), _)) => {
                return tracing::debug!("connection cut: handshake_timeout");
            }
            Either::Right((Either::Right(_), _)) => return tracing::debug!("connection cut: draining"),
        };
        match ended {
            // A task of its own, as small as what is left to do.
            Ok(Some((socket, accepted))) => {
                tokio::spawn(sse::serve(socket, accepted, Arc::clone(&shared), open_connection.clone()));
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "connection failed before it was a session's"),
        }
    });
}

/// Serves requests until one of them takes the socket. A stream of events gets it back from here.
async fn serve_http(
    socket: TcpStream,
    peer: SocketAddr,
    shared: &Arc<Shared>,
    open_connection: &OpenConnection,
) -> Result<Option<(TcpSocket, sse::Accepted)>, NotServed> {
    let accepted = Mutex::new(None);
    let service = service_fn(|request| {
        let answer = answer(request, peer, shared, open_connection);
        let reply = match answer {
            Answer::Reply(reply) => Some(reply),
            Answer::Events(events) => {
                *accepted.lock() = Some(events);
                None
            }
        };
        async {
            match reply {
                Some(reply) => Ok::<_, Infallible>(reply),
                None => std::future::pending().await,
            }
        }
    });
    let socket = TcpSocket::accept(socket, shared.config.tls.as_deref()).await.map_err(NotServed::Tls)?;
    let mut connection =
        http1::Builder::new().serve_connection(TokioIo::new(socket), service).with_upgrades();
    let accepted = poll_fn(|context| {
        let ended = Pin::new(&mut connection).poll(context);
        match accepted.lock().take() {
            Some(accepted) => Poll::Ready(Ok(Some(accepted))),
            None => ended.map(|ended| ended.map(|()| None).map_err(NotServed::Http)),
        }
    });
    let Some(accepted) = accepted.await? else { return Ok(None) };
    let parts = connection.into_parts().expect("it was not upgraded, for it waits for our answer");
    Ok(Some((parts.io.into_inner(), accepted)))
}

/// What a request gets.
enum Answer {
    Reply(Reply),
    /// The socket itself, for a stream of events.
    Events(sse::Accepted),
}

fn answer(
    request: Request<Incoming>,
    peer: SocketAddr,
    shared: &Arc<Shared>,
    open_connection: &OpenConnection,
) -> Answer {
    let reply = match (request.uri().path(), request.method()) {
        ("/ws", &Method::GET) => upgrade(request, peer, shared, open_connection),
        ("/events", &Method::GET) => {
            let caller = Caller::of(&request, peer.ip(), &shared.config);
            match sse::accept(&request, &caller, shared) {
                Ok(accepted) => return Answer::Events(accepted),
                Err(reply) => *reply,
            }
        }
        ("/ws" | "/events", _) => ApiError::method_not_allowed("GET").into(),
        (path, _) => {
            let message = format!(
                "no such path: {path}; clients connect to /ws (WebSocket) or /events (server-sent events)"
            );
            ApiError::not_found(message).into()
        }
    };
    Answer::Reply(reply)
}

fn upgrade(
    mut request: Request<Incoming>,
    peer: SocketAddr,
    shared: &Arc<Shared>,
    open_connection: &OpenConnection,
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
    let query = request.uri().query().unwrap_or_default().to_owned();
    let caller = Caller::of(&request, peer.ip(), &shared.config);
    let upgrade = Upgrade {
        caller,
        on_upgrade: hyper::upgrade::on(&mut request),
        query,
        open_connection: open_connection.clone(),
    };
    // A task of its own: hyper's, with its buffers, ends with the upgrade and is freed.
    tokio::spawn(websocket::serve(upgrade, Arc::clone(shared)));
    reply
}
