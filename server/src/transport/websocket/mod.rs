//! WebSocket: from the upgraded socket to the closing handshake.

mod at_rest;
mod bayeux;
mod connection;
mod fault;
mod frame;
mod goodbye;
mod inbox;
mod spoken;
mod waiting;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;

use encke_core::close::CloseCode;
use encke_core::session::{ConnectionKind, Delivery};
use futures_util::future::BoxFuture;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use crate::admission::{OpenConnection, QuietConnection, RefusalReason};
use crate::client::{Attachment, Caller, ClientSettings, Context};
use crate::session::{AttachRequest, Refusal};
use crate::transport::Socket;
use crate::transport::metered::Metered;

use connection::{Connection, Greeting, Paused};
use goodbye::Ending;
use inbox::Inbox;
use spoken::Spoken;

pub(crate) use bayeux::BayeuxSocket;
pub(crate) use waiting::{Over, Waiting};

/// tungstenite fills its read buffer with zeros up to this size before every read, and keeps it: small is fast and
/// lean. A longer message gets the room it announces, once it is there.
const READ_BUFFER: usize = 128;

/// What a client asks for when it connects.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted<D> {
    /// A resume token, unchecked.
    pub(crate) resume: Option<String>,
    /// The last message that the client has.
    pub(crate) seq: Option<u64>,
    /// A JWT, unchecked.
    pub(crate) token: Option<String>,
    /// What it will speak.
    pub(crate) dialect: D,
}

/// A request that is answered with 101.
pub(crate) struct Upgrade<D> {
    pub(crate) caller: Caller,
    /// Nothing, if the query was malformed.
    pub(crate) wanted: Option<Wanted<D>>,
    /// Held until the socket is closed.
    pub(crate) open_connection: OpenConnection,
    /// What is written first: the 101, unless it was written.
    pub(crate) answer: Vec<u8>,
}

/// An upgraded socket, and what was read from it before.
pub(crate) type Upgraded<S> = (S, Vec<u8>);

/// Serves a WebSocket to its end, once it is upgraded.
///
/// A task is as large as all that it ever holds, for all its life, including what it was given and has moved elsewhere. So the
/// beginning and the end are boxed, and the task itself holds the connection and no more. Nobody has a use for its result: it opens no
/// other session.
pub(crate) fn serve<S: Socket, D: Spoken>(
    upgrade: Upgrade<D>,
    upgraded: impl Future<Output = Option<Upgraded<S>>> + Send + 'static,
    context: Arc<Context>,
) -> impl Future<Output = Option<Anew<S, OpenConnection>>> + Send {
    let Upgrade { caller, wanted, open_connection, answer } = upgrade;
    let opening = Box::pin(async move { open(upgraded.await?, &caller, wanted, answer, &context).await });
    run(opening, open_connection)
}

/// The same for a socket that has its session already. `said` is what its client is told first, `heard` what it has said. Returns the
/// socket, if its client opens another session, the text that does, and `holder`.
pub(crate) fn serve_begun<S: Socket, D: Spoken, H: Holder<S>>(
    (socket, read_already): Upgraded<S>,
    attachment: Attachment,
    dialect: D,
    (said, heard): (Option<String>, Option<String>),
    holder: H,
) -> impl Future<Output = Option<Anew<S, H>>> + Send {
    let opening = Box::pin(async move {
        let socket = connect(socket, read_already, &attachment).await;
        let mut connection = Connection::begun(socket, attachment, dialect);
        if let Some(text) = said {
            connection.say(&text);
        }
        if let Some(text) = heard {
            connection.heard(&text);
        }
        Some(connection)
    });
    run(opening, holder)
}

/// What goes with a connection whatever becomes of its session, also while it is at rest.
pub(crate) trait Holder<S>: Send + 'static {
    /// The same, while the connection is at rest.
    type AtRest: Send + 'static;

    fn rest(self) -> Self::AtRest;

    fn wake(at_rest: Self::AtRest) -> Self;

    /// After a rest, its client has opened another session, by this text.
    fn open_anew(self, socket: Upgraded<S>, text: String) -> BoxFuture<'static, ()>;
}

/// A connection whose client opens another session: the socket, the text, and what goes with it.
pub(crate) type Anew<S, H> = (Upgraded<S>, String, H);

impl<S> Holder<S> for OpenConnection {
    type AtRest = QuietConnection;

    fn rest(self) -> QuietConnection {
        self.rest()
    }

    fn wake(at_rest: QuietConnection) -> Self {
        at_rest.wake()
    }

    /// Its dialect knows of no other session.
    fn open_anew(self, _: Upgraded<S>, _: String) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Runs a connection until it ends or goes to rest, or its client opens another session.
fn run<S: Socket, D: Spoken, H: Holder<S>>(
    opening: Pin<Box<impl Future<Output = Option<Connection<S, D>>> + Send + 'static>>,
    holder: H,
) -> impl Future<Output = Option<Anew<S, H>>> + Send {
    let mut holder = Some(holder);
    async move {
        let mut opened = opening.await;
        while let Some(connection) = &mut opened {
            match connection.run().await {
                Paused::Ended(Ending::Anew) => {
                    let (socket, text) = self::opening(&mut opened).await?;
                    return Some((socket, text, holder.take()?));
                }
                Paused::Ended(ending) => say_goodbye(&mut opened, ending).await,
                Paused::Renew => renew(&mut opened).await,
                Paused::Rest => at_rest::rest(opened.take()?, holder.take()?),
            }
        }
        None
    }
}

/// What the client is told of the session that it gives up is told first.
fn opening<S: Socket, D: Spoken>(
    opened: &mut Option<Connection<S, D>>,
) -> BoxFuture<'static, Option<(Upgraded<S>, String)>> {
    let Some(connection) = opened.take() else {
        return Box::pin(std::future::ready(None));
    };
    Box::pin(async move {
        let ((mut socket, read_already), mut unwritten, opening) = connection.into_opening();
        if !unwritten.is_empty() {
            poll_fn(|context| unwritten.poll_write(context, &mut socket)).await.ok()?;
        }
        Some(((socket, read_already), opening?))
    })
}

/// Puts a session's socket into what frames are read from.
async fn connect<S: Socket>(
    socket: S,
    read_already: Vec<u8>,
    attachment: &Attachment,
) -> WebSocketStream<Inbox<S>> {
    let context = &attachment.context;
    let socket = Metered::new(socket, Arc::clone(&attachment.link), Arc::clone(context));
    let socket = Inbox::new(socket, read_already);
    websocket(socket, Vec::new(), &context.settings).await
}

fn renew<S: Socket, D: Spoken>(
    opened: &mut Option<Connection<S, D>>,
) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
    Box::pin(async move {
        if let Some(connection) = opened.take() {
            *opened = Some(connection.renew().await);
        }
    })
}

fn say_goodbye<S: Socket, D: Spoken>(
    opened: &mut Option<Connection<S, D>>,
    ending: Ending,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let Some(connection) = opened.take() else {
        return Box::pin(std::future::ready(()));
    };
    let context = Arc::clone(connection.context());
    Box::pin(async move {
        let (socket, unwritten) = connection.into_socket(ending).await;
        goodbye::say::<_, D>(socket, unwritten, ending, &context).await;
    })
}

/// Gives a socket its session. A connection that gets none is told why.
async fn open<S: Socket, D: Spoken>(
    (socket, read_already): Upgraded<S>,
    caller: &Caller,
    wanted: Option<Wanted<D>>,
    answer: Vec<u8>,
    context: &Arc<Context>,
) -> Option<Connection<S, D>> {
    let settings = &context.settings;
    match attach(caller, wanted, &socket, context) {
        Ok((attachment, greeting)) => {
            let socket = connect(socket, read_already, &attachment).await;
            Some(Connection::new(socket, attachment, greeting, answer))
        }
        // After the upgrade, since a browser cannot see the status of a refused one.
        Err(code) => {
            let socket = websocket(socket, read_already, settings).await;
            goodbye::say::<_, D>(socket, answer.into(), Ending::Close(code), context).await;
            None
        }
    }
}

fn attach<D: Spoken>(
    caller: &Caller,
    wanted: Option<Wanted<D>>,
    socket: &impl Socket,
    context: &Arc<Context>,
) -> Result<(Attachment, Greeting<D>), CloseCode> {
    let Some(Wanted { resume, seq, token, dialect }) = wanted else {
        context.refusals.refused(RefusalReason::Query, caller.address, "a value of the query is malformed");
        return Err(CloseCode::ProtocolError);
    };
    let identity = caller.identify(token.as_deref(), context)?;
    let request = |may_open| AttachRequest {
        resume,
        seq,
        identity,
        address: caller.address,
        kind: ConnectionKind::Stream(dialect.heartbeat()),
        dialect: D::NAME,
        delivery: Delivery::AtLeastOnce,
        may_open,
        only_resume: caller.only_resumes(),
    };
    let attached = context.attach(caller.address, request, || socket.is_over());
    let mut attached = attached.map_err(|refusal| match refusal {
        Refusal::TooManyConnections | Refusal::TooManySessions | Refusal::TooFast => CloseCode::Overloaded,
        Refusal::Draining => CloseCode::Draining,
        Refusal::Moved => CloseCode::Moved,
        // It is asked about when it comes again.
        Refusal::Gone if caller.only_resumes() => CloseCode::Overloaded,
        Refusal::NotTheUser | Refusal::Gone => CloseCode::Unauthorized,
        Refusal::Late => CloseCode::Replaced,
        Refusal::Ended(code) => code,
    })?;
    let greeting =
        Greeting { dialect, recovered: attached.recovered, revoked: std::mem::take(&mut attached.revoked) };
    Ok((Attachment::new(attached, Arc::clone(context)), greeting))
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

    /// With what the runtime adds, 648 bytes.
    #[test]
    fn the_task_of_a_websocket_is_small() {
        type Arriving = Ready<Option<Upgraded<TcpSocket>>>;
        fn size<F>(_: fn(Upgrade<Json>, Arriving, Arc<Context>) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(serve) <= 544, "{} bytes", size(serve));
    }
}
