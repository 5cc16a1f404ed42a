//! WebSocket: from the upgraded socket to the closing handshake.

mod bayeux;
mod closing;
mod connection;
mod dialect;
mod error_class;
mod frame;
mod frame_limiter;
mod parked;
mod sessionless;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use encke_core::close::CloseCode;
use encke_core::session::{ConnectionKind, DeliveryMode};
use futures_util::future::BoxFuture;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::admission::{CompactConnection, OpenConnection, RefusalReason};
use crate::client::{Attachment, Caller, ClientSettings, Services};
use crate::session::{AttachRefusal, AttachRequest};
use crate::transport::Socket;
use crate::transport::liveness_socket::LivenessSocket;

use closing::Ending;
use connection::{Greeting, Paused, WebSocketConnection};
use dialect::WebSocketDialect;
use frame_limiter::FrameLimiter;

pub(crate) use bayeux::BayeuxSocket;
pub(crate) use sessionless::{SessionlessSocket, SocketEnd};

/// Size of tungstenite's read buffer. tungstenite fills the buffer with zeros up to this size before every
/// read and never frees it, so a small size saves both time and memory. For a longer message, the buffer
/// grows to the announced length, once the message has arrived.
const READ_BUFFER: usize = 128;

/// Parameters of a client's connection request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectParams<D> {
    /// Unverified resume token.
    pub(crate) resume: Option<String>,
    /// Seq of the last message that the client has received.
    pub(crate) seq: Option<u64>,
    /// Unverified JWT.
    pub(crate) token: Option<String>,
    pub(crate) dialect: D,
}

/// An upgrade request that is answered with 101.
pub(crate) struct Upgrade<D> {
    pub(crate) caller: Caller,
    /// `None` if the query was malformed.
    pub(crate) wanted: Option<ConnectParams<D>>,
    /// Held until the socket is closed.
    pub(crate) open_connection: OpenConnection,
    /// First output: the 101, unless hyper has written it.
    pub(crate) answer: Vec<u8>,
}

/// An upgraded socket, and the bytes read from it so far.
pub(crate) type Upgraded<S> = (S, Vec<u8>);

/// Serves a WebSocket to its end, once it is upgraded.
///
/// A task is as large as everything that it ever holds, including arguments that were moved elsewhere.
/// Therefore the beginning and the end are boxed, and the task itself holds only the connection. Callers
/// ignore the result, since these dialects never open another session.
pub(crate) fn serve<S: Socket, D: WebSocketDialect>(
    upgrade: Upgrade<D>,
    upgraded: impl Future<Output = Option<Upgraded<S>>> + Send + 'static,
    services: Arc<Services>,
) -> impl Future<Output = Option<NewSession<S, OpenConnection>>> + Send {
    let Upgrade { caller, wanted, open_connection, answer } = upgrade;
    let opening = Box::pin(async move { open(upgraded.await?, &caller, wanted, answer, &services).await });
    run(opening, open_connection)
}

/// Serves a WebSocket that already has its session. `greeting_text` is sent first; `received_text` was
/// already received from the client. If the client opens another session, returns the socket, the text
/// message that does so, and `owner`.
pub(crate) fn serve_with_session<S: Socket, D: WebSocketDialect, H: SocketOwner<S>>(
    (socket, read_already): Upgraded<S>,
    attachment: Attachment,
    dialect: D,
    (greeting_text, received_text): (Option<String>, Option<String>),
    owner: H,
) -> impl Future<Output = Option<NewSession<S, H>>> + Send {
    let opening = Box::pin(async move {
        let socket = connect(socket, read_already, &attachment).await;
        let mut connection = WebSocketConnection::bare(socket, attachment, dialect);
        if let Some(text) = greeting_text {
            connection.queue_text(&text);
        }
        if let Some(text) = received_text {
            connection.run_commands(&text);
        }
        Some(connection)
    });
    run(opening, owner)
}

/// State that belongs to a socket rather than to one of its sessions. It is kept while the connection is
/// parked.
pub(crate) trait SocketOwner<S>: Send + 'static {
    /// Form of the state while the connection is parked.
    type Parked: Send + 'static;

    fn park(self) -> Self::Parked;

    fn unpark(at_rest: Self::Parked) -> Self;

    /// Serves the socket after its client has sent `text`, which opens another session. Called for
    /// connections that have been parked.
    fn open_new_session(self, socket: Upgraded<S>, text: String) -> BoxFuture<'static, ()>;
}

/// A connection whose client opens another session: the socket, the text message that does so, and the
/// socket's owner.
pub(crate) type NewSession<S, H> = (Upgraded<S>, String, H);

impl<S> SocketOwner<S> for OpenConnection {
    type Parked = CompactConnection;

    fn park(self) -> CompactConnection {
        self.compact()
    }

    fn unpark(at_rest: CompactConnection) -> Self {
        at_rest.expand()
    }

    /// Never called: these dialects cannot open another session.
    fn open_new_session(self, _: Upgraded<S>, _: String) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Runs a connection until it ends or is parked, or its client opens another session.
fn run<S: Socket, D: WebSocketDialect, H: SocketOwner<S>>(
    opening: Pin<Box<impl Future<Output = Option<WebSocketConnection<S, D>>> + Send + 'static>>,
    owner: H,
) -> impl Future<Output = Option<NewSession<S, H>>> + Send {
    let mut owner = Some(owner);
    async move {
        let mut connection_slot = opening.await;
        while let Some(connection) = &mut connection_slot {
            match connection.run().await {
                Paused::Ended(Ending::NewSession) => {
                    let (socket, text) = self::flush_for_new_session(&mut connection_slot).await?;
                    return Some((socket, text, owner.take()?));
                }
                Paused::Ended(ending) => close_connection(&mut connection_slot, ending).await,
                Paused::Renew => renew(&mut connection_slot).await,
                Paused::Park => parked::park(connection_slot.take()?, owner.take()?),
            }
        }
        None
    }
}

/// Sends the remaining output of the session that the client gives up. Returns the socket, and the text
/// message that opens the next session.
fn flush_for_new_session<S: Socket, D: WebSocketDialect>(
    connection_slot: &mut Option<WebSocketConnection<S, D>>,
) -> BoxFuture<'static, Option<(Upgraded<S>, String)>> {
    let Some(connection) = connection_slot.take() else {
        return Box::pin(std::future::ready(None));
    };
    Box::pin(async move {
        let ((mut socket, read_already), mut unwritten, opening) = connection.into_new_session();
        if !unwritten.is_empty() {
            poll_fn(|task| unwritten.poll_write(task, &mut socket)).await.ok()?;
        }
        Some(((socket, read_already), opening?))
    })
}

/// Wraps the socket of a session for reading frames.
async fn connect<S: Socket>(
    socket: S,
    read_already: Vec<u8>,
    attachment: &Attachment,
) -> WebSocketStream<FrameLimiter<S>> {
    let services = &attachment.services;
    let socket = LivenessSocket::new(socket, Arc::clone(&attachment.mailbox), Arc::clone(services));
    let socket = FrameLimiter::new(socket, read_already);
    websocket(socket, Vec::new(), &services.settings).await
}

fn renew<S: Socket, D: WebSocketDialect>(
    connection_slot: &mut Option<WebSocketConnection<S, D>>,
) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
    Box::pin(async move {
        if let Some(connection) = connection_slot.take() {
            *connection_slot = Some(connection.renew().await);
        }
    })
}

fn close_connection<S: Socket, D: WebSocketDialect>(
    connection_slot: &mut Option<WebSocketConnection<S, D>>,
    ending: Ending,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let Some(connection) = connection_slot.take() else {
        return Box::pin(std::future::ready(()));
    };
    let services = Arc::clone(connection.services());
    Box::pin(async move {
        let (socket, unwritten) = connection.into_socket(ending).await;
        closing::close::<_, D>(socket, unwritten, ending, &services).await;
    })
}

/// Attaches a socket to a session. If the session refuses, closes the connection with the reason.
async fn open<S: Socket, D: WebSocketDialect>(
    (socket, read_already): Upgraded<S>,
    caller: &Caller,
    wanted: Option<ConnectParams<D>>,
    answer: Vec<u8>,
    services: &Arc<Services>,
) -> Option<WebSocketConnection<S, D>> {
    let settings = &services.settings;
    match attach(caller, wanted, &socket, services) {
        Ok((attachment, greeting)) => {
            let socket = connect(socket, read_already, &attachment).await;
            Some(WebSocketConnection::new(socket, attachment, greeting, answer))
        }
        // Refuse after the upgrade, because a browser cannot see the status of a refused upgrade.
        Err(code) => {
            let socket = websocket(socket, read_already, settings).await;
            closing::close::<_, D>(socket, answer.into(), Ending::Close(code), services).await;
            None
        }
    }
}

fn attach<D: WebSocketDialect>(
    caller: &Caller,
    wanted: Option<ConnectParams<D>>,
    socket: &impl Socket,
    services: &Arc<Services>,
) -> Result<(Attachment, Greeting<D>), CloseCode> {
    let Some(ConnectParams { resume, seq, token, dialect }) = wanted else {
        services.refusals.record(
            RefusalReason::Query,
            caller.address,
            "the query contains a malformed value",
        );
        return Err(CloseCode::ProtocolError);
    };
    let identity = caller.identify(token.as_deref(), services)?;
    let request = |may_open| AttachRequest {
        resume,
        seq,
        identity,
        address: caller.address,
        kind: ConnectionKind::Stream(dialect.heartbeat()),
        dialect: D::NAME,
        delivery: DeliveryMode::AtLeastOnce,
        can_open: may_open,
        only_resume: caller.can_only_resume(),
    };
    let attached = services.attach(caller.address, request, || socket.is_closed_by_peer());
    let mut attached = attached.map_err(|refusal| match refusal {
        AttachRefusal::TooManyConnections
        | AttachRefusal::TooManySessions
        | AttachRefusal::TooManyNewSessions => CloseCode::Overloaded,
        AttachRefusal::Draining => CloseCode::Draining,
        AttachRefusal::Moved => CloseCode::Moved,
        // Make the client reconnect: the backend is called then.
        AttachRefusal::SessionGone if caller.can_only_resume() => CloseCode::Overloaded,
        AttachRefusal::WrongUser | AttachRefusal::SessionGone => CloseCode::Unauthorized,
        AttachRefusal::AlreadyReconnected => CloseCode::Replaced,
        AttachRefusal::Ended(code) => code,
    })?;
    let greeting =
        Greeting { dialect, recovered: attached.recovered, revoked: std::mem::take(&mut attached.revoked) };
    Ok((Attachment::new(attached, Arc::clone(services)), greeting))
}

async fn websocket<S>(socket: S, read_already: Vec<u8>, settings: &ClientSettings) -> WebSocketStream<S>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let config = WebSocketConfig::default()
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(0)
        .max_write_buffer_size(settings.send_buffer)
        .max_message_size(Some(settings.max_message))
        .max_frame_size(Some(settings.max_message));
    WebSocketStream::from_partially_read(socket, read_already, Role::Server, Some(config)).await
}

#[cfg(test)]
mod tests {
    use std::future::Ready;

    use encke_core::dialect::json::Json;

    use super::*;
    use crate::transport::TcpSocket;

    /// With the runtime's overhead, the task takes 648 bytes.
    #[test]
    fn websocket_task_is_small() {
        type Upgrading = Ready<Option<Upgraded<TcpSocket>>>;
        fn size<F>(_: fn(Upgrade<Json>, Upgrading, Arc<Services>) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(serve) <= 544, "{} bytes", size(serve));
    }
}
