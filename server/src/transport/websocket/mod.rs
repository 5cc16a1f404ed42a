//! WebSocket: from the upgraded socket to the closing handshake.

mod connection;
mod fault;
mod goodbye;
mod query;

use std::sync::Arc;

use encke_core::close::CloseCode;
use encke_core::dialect::json::{Hello, ServerMessage, VERSION};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::config::Limits;
use crate::server::Shared;
use crate::session::{AttachRequest, Attached, Refusal, ResumeToken, Transport};
use crate::transport::metered::Metered;

use connection::Connection;
use query::Query;

/// tungstenite fills its read buffer with zeros up to this size before every read, and keeps it: small is fast and
/// lean. A longer message gets the room it announces.
const READ_BUFFER: usize = 256;

/// A socket that has just been upgraded, with what was read beyond the request.
pub(crate) struct Upgraded {
    pub(crate) socket: TcpStream,
    pub(crate) read_already: Vec<u8>,
    pub(crate) query: String,
}

/// Serves a WebSocket to its end.
pub(crate) async fn serve(upgraded: Upgraded, shared: Arc<Shared>) {
    let Upgraded { socket, read_already, query } = upgraded;
    let request = match Query::parse(&query) {
        Ok(query) => AttachRequest {
            resume: query.resume.as_deref().and_then(ResumeToken::parse),
            seq: query.seq,
            heartbeat: query.heartbeat,
            transport: Transport::WebSocket,
        },
        // After the upgrade, since a browser cannot see the status of a refused one.
        Err(_) => return refuse(socket, read_already, CloseCode::ProtocolError, &shared).await,
    };
    let attached = match attach(&request, &shared) {
        Ok(attached) => attached,
        Err(code) => return refuse(socket, read_already, code, &shared).await,
    };
    let hello = hello(&attached, &shared);
    let link = Arc::clone(&attached.link);
    let socket = Metered::new(socket, Arc::clone(&link), Arc::clone(&shared.timeouts));
    let socket = websocket(socket, read_already, &shared.config.limits).await;
    let mut connection =
        Connection::new(socket, attached.session, link, request.heartbeat, Arc::clone(&shared));
    let gauge = shared.metrics.connections(Transport::WebSocket);
    gauge.inc();
    let ending = connection.run(hello).await;
    gauge.dec();
    goodbye::say(connection.into_socket(), ending, &shared).await;
}

fn attach(request: &AttachRequest, shared: &Shared) -> Result<Attached, CloseCode> {
    if shared.connections.open() > shared.config.limits.max_connections {
        return Err(CloseCode::Overloaded);
    }
    shared.sessions.attach(request).map_err(|refusal| match refusal {
        Refusal::Overloaded => CloseCode::Overloaded,
        Refusal::Draining => CloseCode::Draining,
    })
}

async fn refuse(socket: TcpStream, read_already: Vec<u8>, code: CloseCode, shared: &Shared) {
    tracing::debug!(reason = code.reason(), "connection refused");
    let socket = websocket(socket, read_already, &shared.config.limits).await;
    goodbye::say(socket, goodbye::Ending::Close(code), shared).await;
}

async fn websocket<S>(socket: S, read_already: Vec<u8>, limits: &Limits) -> WebSocketStream<S>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(limits.send_buffer)
        .max_message_size(Some(limits.max_message))
        .max_frame_size(Some(limits.max_message));
    WebSocketStream::from_partially_read(socket, read_already, Role::Server, Some(config)).await
}

fn hello(attached: &Attached, shared: &Shared) -> String {
    let timeouts = shared.sessions.settings();
    let millis = |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    ServerMessage::Hello(Hello {
        version: VERSION,
        session: attached.session.id().to_string().into(),
        resume: attached.session.resume_token().expose().into(),
        recovered: attached.recovered,
        seq: attached.session.seq(),
        ping_interval_ms: millis(timeouts.ping_interval),
        pong_timeout_ms: millis(timeouts.pong_timeout),
        reconnect_window_ms: millis(timeouts.reconnect_window),
    })
    .to_json()
}
