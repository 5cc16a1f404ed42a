//! What clients see: the WebSocket upgrade, and nothing else yet.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::{Either, select};
use hyper::body::Incoming;
use hyper::header::{HeaderValue, SEC_WEBSOCKET_VERSION, UPGRADE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;

use super::{ApiError, Reply};
use crate::server::Shared;
use crate::shutdown::OpenConnection;
use crate::transport::websocket::{self, Upgrade};
use crate::transport::{Caller, Socket};

/// Why a connection ended before it was a WebSocket.
#[derive(Debug, thiserror::Error)]
enum NotServed {
    #[error("TLS: {0}")]
    Tls(std::io::Error),
    #[error("{0}")]
    Http(hyper::Error),
}

/// Serves HTTP/1.1, within TLS if that is configured, on one connection. Whatever it asks for, after `handshake_timeout`
/// it is a WebSocket or cut: also a client that sends nothing, or half a request, or does not read its answers.
///
/// HTTP/1.1 alone, because hyper-util's `auto` builder has no timeout while it guesses the version.
pub(crate) fn serve(socket: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    // Counted before the task first runs, so that a drain does not overlook it.
    let open_connection = shared.connections.enter();
    tokio::spawn(async move {
        let service = service_fn(|request| {
            let reply = answer(request, peer, &shared, &open_connection);
            async { Ok::<_, Infallible>(reply) }
        });
        let connection = async {
            let socket =
                Socket::accept(socket, shared.config.tls.as_deref()).await.map_err(NotServed::Tls)?;
            let connection = http1::Builder::new().serve_connection(TokioIo::new(socket), service);
            connection.with_upgrades().await.map_err(NotServed::Http)
        };
        let patience = shared.timeouts.sleep(shared.config.limits.handshake_timeout);
        let stopped = pin!(shared.stop_accepting.wait());
        match select(pin!(connection), select(pin!(patience), stopped)).await {
            Either::Left((Ok(()), _)) => {}
            Either::Left((Err(error), _)) => {
                tracing::debug!(%error, "connection failed before it was a WebSocket");
            }
            Either::Right((Either::Left(_), _)) => tracing::debug!("connection cut: handshake_timeout"),
            Either::Right((Either::Right(_), _)) => tracing::debug!("connection cut: draining"),
        }
    });
}

fn answer(
    request: Request<Incoming>,
    peer: SocketAddr,
    shared: &Arc<Shared>,
    open_connection: &OpenConnection,
) -> Reply {
    match (request.uri().path(), request.method()) {
        ("/ws", &Method::GET) => upgrade(request, peer, shared, open_connection),
        ("/ws", _) => ApiError::method_not_allowed("GET").into(),
        (path, _) => {
            ApiError::not_found(format!("no such path: {path}; WebSocket clients connect to /ws")).into()
        }
    }
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
