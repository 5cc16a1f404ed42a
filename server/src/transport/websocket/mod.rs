//! WebSocket: from the upgraded socket to the closing handshake.

mod commands;
mod connection;
mod fault;
mod frame;
mod goodbye;
mod query;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use encke_core::close::CloseCode;
use encke_core::dialect::Dialect;
use encke_core::dialect::json::Json;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::config::Limits;
use crate::server::Shared;
use crate::session::{AttachRequest, Refusal, Transport};
use crate::shutdown::OpenConnection;
use crate::transport::attachment::Attachment;
use crate::transport::metered::Metered;
use crate::transport::unwritten::Unwritten;
use crate::transport::{Caller, Socket};

use connection::{Connection, Greeting};
use goodbye::Ending;
use query::{BadQuery, Query};

/// tungstenite fills its read buffer with zeros up to this size before every read, and keeps it: small is fast and
/// lean. A longer message gets the room it announces.
const READ_BUFFER: usize = 256;

/// A request that was answered with 101, whose socket is about to be ours.
pub(crate) struct Upgrade {
    pub(crate) caller: Caller,
    pub(crate) on_upgrade: OnUpgrade,
    pub(crate) query: String,
    /// Held until the socket is closed.
    pub(crate) open_connection: OpenConnection,
}

/// Serves a WebSocket to its end.
///
/// A task is as large as all that it ever holds, for all its life: also what it was given, and what it has moved elsewhere. So the
/// beginning and the end are boxed, outside of it, and it holds the connection and no more.
pub(crate) fn serve(upgrade: Upgrade, shared: Arc<Shared>) -> impl Future<Output = ()> + Send {
    let Upgrade { caller, on_upgrade, query, open_connection } = upgrade;
    let opening = Box::pin(open(caller, on_upgrade, query, Arc::clone(&shared)));
    async move {
        let mut opened = opening.await;
        if let Some(connection) = &mut opened {
            let ending = connection.run().await;
            say_goodbye(&mut opened, ending, &shared).await;
        }
        drop(open_connection);
    }
}

fn say_goodbye(
    opened: &mut Option<Connection>,
    ending: Ending,
    shared: &Arc<Shared>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let Some((socket, unwritten)) = opened.take().map(Connection::into_socket) else {
        return Box::pin(std::future::ready(()));
    };
    let shared = Arc::clone(shared);
    Box::pin(async move { goodbye::say(socket, unwritten, ending, &shared).await })
}

/// Takes the socket over from hyper and gives it a session. A connection that gets none is told why.
async fn open(
    caller: Caller,
    on_upgrade: OnUpgrade,
    query: String,
    shared: Arc<Shared>,
) -> Option<Connection> {
    let upgraded = match on_upgrade.await {
        Ok(upgraded) => upgraded,
        Err(error) => {
            tracing::debug!(%error, "the upgrade failed");
            return None;
        }
    };
    let parts = upgraded.downcast::<TokioIo<Socket>>().expect("hyper was given a Socket in a TokioIo");
    // A copy, though it is empty as a rule: tungstenite would go on using the memory, which is hyper's whole buffer.
    let (socket, read_already) = (parts.io.into_inner(), parts.read_buf.to_vec());
    let limits = &shared.config.limits;
    match attach(&caller, &query, &socket, &shared) {
        Ok((attachment, greeting)) => {
            let link = Arc::clone(&attachment.link);
            let socket = Metered::new(socket, link, Arc::clone(&shared.timeouts));
            let socket = websocket(socket, read_already, limits).await;
            Some(Connection::new(socket, attachment, greeting))
        }
        // After the upgrade, since a browser cannot see the status of a refused one.
        Err(code) => {
            tracing::debug!(reason = code.reason(), "connection refused");
            let socket = websocket(socket, read_already, limits).await;
            goodbye::say(socket, Unwritten::default(), Ending::Close(code), &shared).await;
            None
        }
    }
}

fn attach(
    caller: &Caller,
    query: &str,
    socket: &Socket,
    shared: &Arc<Shared>,
) -> Result<(Attachment, Greeting), CloseCode> {
    let Query { resume, seq, token, heartbeat } =
        Query::parse(query).map_err(|BadQuery| CloseCode::ProtocolError)?;
    let identity = caller.identify(token.as_deref(), &shared.config)?;
    let place = shared.places.take(caller.address);
    let dialect = Json { heartbeat };
    let heartbeat = dialect.heartbeat();
    let request = AttachRequest { resume, seq, identity, heartbeat, transport: Transport::WebSocket };
    let mut attached =
        shared.sessions.attach(&request, place, || socket.is_over()).map_err(|refusal| match refusal {
            Refusal::Overloaded => CloseCode::Overloaded,
            Refusal::Draining => CloseCode::Draining,
            Refusal::NotTheUser | Refusal::Gone => CloseCode::Unauthorized,
            Refusal::Late => CloseCode::Replaced,
        })?;
    let greeting =
        Greeting { dialect, recovered: attached.recovered, revoked: std::mem::take(&mut attached.revoked) };
    Ok((Attachment::new(attached, Transport::WebSocket, Arc::clone(shared)), greeting))
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
