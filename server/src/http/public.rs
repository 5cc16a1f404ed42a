//! What clients see: the WebSocket upgrade, and nothing else yet.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{HeaderValue, SEC_WEBSOCKET_VERSION};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::handshake::server::create_response_with_body;

use super::{ApiError, Reply};
use crate::server::Shared;
use crate::timeouts::WheelTimer;
use crate::transport::websocket::{self, Upgraded};

/// Serves HTTP/1.1 on one connection. A client that sends nothing, half a request, or nothing after an answer is cut
/// after `handshake_timeout`.
///
/// HTTP/1.1 alone, because hyper-util's `auto` builder has no timeout while it guesses the version.
pub(crate) fn serve(socket: TcpStream, shared: Arc<Shared>) {
    tokio::spawn(async move {
        let guard = shared.connections.enter();
        let service = service_fn(|request| {
            let reply = answer(request, &shared, &guard);
            async { Ok::<_, Infallible>(reply) }
        });
        let connection = http1::Builder::new()
            .timer(WheelTimer(Arc::clone(&shared.timeouts)))
            .header_read_timeout(shared.config.limits.handshake_timeout)
            .serve_connection(TokioIo::new(socket), service)
            .with_upgrades();
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection failed before it was a WebSocket");
        }
    });
}

fn answer(
    request: Request<Incoming>,
    shared: &Arc<Shared>,
    guard: &crate::shutdown::OpenConnection,
) -> Reply {
    match (request.uri().path(), request.method()) {
        ("/ws", &Method::GET) => upgrade(request, shared, guard),
        ("/ws", _) => ApiError::method_not_allowed("GET").into(),
        (path, _) => {
            ApiError::not_found(format!("no such path: {path}; WebSocket clients connect to /ws")).into()
        }
    }
}

fn upgrade(
    mut request: Request<Incoming>,
    shared: &Arc<Shared>,
    guard: &crate::shutdown::OpenConnection,
) -> Reply {
    let reply = match create_response_with_body(&request, Default::default) {
        Ok(reply) => reply,
        Err(error) => {
            let mut reply = Reply::from(ApiError::new(
                StatusCode::UPGRADE_REQUIRED,
                "upgrade_required",
                format!("not a WebSocket upgrade: {error}"),
            ));
            reply.headers_mut().insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
            return reply;
        }
    };
    let query = request.uri().query().unwrap_or_default().to_owned();
    let upgrade = hyper::upgrade::on(&mut request);
    let (shared, guard) = (Arc::clone(shared), guard.clone());
    // A task of its own: hyper's, with its buffers, ends with the upgrade and is freed.
    tokio::spawn(async move {
        let upgraded = match upgrade.await {
            Ok(upgraded) => upgraded,
            Err(error) => return tracing::debug!(%error, "the upgrade failed"),
        };
        let parts =
            upgraded.downcast::<TokioIo<TcpStream>>().expect("hyper was given a TcpStream in a TokioIo");
        let upgraded = Upgraded { socket: parts.io.into_inner(), read_already: parts.read_buf.into(), query };
        websocket::serve(upgraded, shared).await;
        drop(guard);
    });
    reply
}
