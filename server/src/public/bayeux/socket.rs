//! Bayeux WebSockets. A socket has no session until a message opens or resumes one.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::dialect::bayeux::{ClientMessage, MessageKind, split_messages};
use encke_core::dialect::{Dialect, TextSink};
use encke_core::session::Phase;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, OptionFuture};

use super::command::{Replies, commands};
use super::connect::{WEBSOCKET, resume};
use super::handshake::{OpenedSession, open};
use super::session::{FoundSession, Requester, refusal_reply, session, unavailable};
use crate::admission::OpenConnection;
use crate::client::{Attachment, unsubscribed};
use crate::connection::transport::websocket::{
    BayeuxSocket, Frames, SessionlessSocket, Upgraded, WebSocket, WebSocketDialect,
};
use crate::connection::{Connection, Ending, Parkable, Socket, drive};
use crate::public::context::{Context, NotServed};
use crate::public::deadline::{ConnectionDeadline, RequestTimeout, serve_until};
use crate::session::{Arrival, Attached};

/// An upgrade request that was answered with 101.
pub(crate) struct SocketUpgrade {
    pub(crate) requester: Requester,
    /// Held until the socket is closed.
    pub(crate) _open_connection: OpenConnection,
}

/// State shared by all sessions of a WebSocket.
struct BayeuxSocketOwner {
    upgrade: Arc<SocketUpgrade>,
    context: Arc<Context>,
}

type BayeuxConnection<S> = Connection<S, WebSocket<BayeuxSocket, BayeuxSocketOwner>>;

impl<S: Socket> Parkable<S> for WebSocket<BayeuxSocket, BayeuxSocketOwner> {
    fn run(connection: BayeuxConnection<S>) -> impl Future<Output: Send + 'static> + Send + 'static {
        run(connection).then(|next| {
            // Boxed, because the future contains its own type.
            let serve_next = |(socket, text, owner)| -> BoxFuture<'static, ()> {
                Box::pin(serve_sessions(socket, Some(text), owner))
            };
            OptionFuture::from(next.map(serve_next))
        })
    }
}

/// A connection whose client opens another session: the socket, the text message that does so, and the
/// socket's owner.
type NewSession<S> = (Upgraded<S>, String, BayeuxSocketOwner);

/// Runs a connection until it ends or is parked, or its client opens another session.
// Not an `async` block, which would reserve space for the connection twice.
fn run<S: Socket>(connection: BayeuxConnection<S>) -> impl Future<Output = Option<NewSession<S>>> + Send {
    drive(connection).then(|released| OptionFuture::from(released.map(next_session)).map(Option::flatten))
}

/// Sends the remaining output of the session that the client gives up, and returns the parts that the next
/// session needs.
fn next_session<S: Socket>(connection: BayeuxConnection<S>) -> BoxFuture<'static, Option<NewSession<S>>> {
    let (mut socket, read, mut unwritten, WebSocket { mut dialect, owner }) = connection.into_parts();
    Box::pin(async move {
        if !unwritten.is_empty() {
            poll_fn(|task| unwritten.poll_write(task, &mut socket)).await.ok()?;
        }
        Some(((socket, read), dialect.take_handshake()?, owner))
    })
}

/// A session attached to a socket, and the first text messages of its connection.
struct BoundSession {
    attached: Attached,
    dialect: BayeuxSocket,
    /// Text message to send first.
    greeting: Option<String>,
    /// Text message that was received from the client and has not been answered yet.
    unanswered_text: Option<String>,
}

/// Serves a WebSocket to its end, once it is upgraded. While the WebSocket has a session, its task holds the
/// connection and little else.
pub(crate) fn serve<S: Socket>(
    upgrade: SocketUpgrade,
    upgraded: impl Future<Output = Option<Upgraded<S>>> + Send + 'static,
    context: Arc<Context>,
) -> impl Future<Output = ()> + Send {
    let (upgraded, owner) = (Box::pin(upgraded), BayeuxSocketOwner { upgrade: Arc::new(upgrade), context });
    async move {
        let Some(socket) = upgraded.await else { return };
        serve_sessions(socket, None, owner).await;
    }
}

/// Serves a WebSocket that has no session yet. `text` is a text message that was already received.
fn serve_sessions<S: Socket>(
    socket: Upgraded<S>,
    text: Option<String>,
    owner: BayeuxSocketOwner,
) -> impl Future<Output = ()> + Send {
    let mut opening = Some((socket, text, owner));
    async move {
        // A client may give up its session for another.
        while let Some((socket, text, owner)) = opening.take() {
            let BayeuxSocketOwner { upgrade, context } = &owner;
            let binding = bind_session(socket, text, Arc::clone(upgrade), Arc::clone(context));
            let Some((bound, socket)) = Box::pin(binding).await else { return };
            opening = run(greet(bound, socket, owner))
                .await
                .map(|(socket, text, owner)| (socket, Some(text), owner));
        }
    }
}

/// Creates the connection of a session, and handles its first text messages.
fn greet<S: Socket>(
    bound: BoundSession,
    (socket, read): Upgraded<S>,
    owner: BayeuxSocketOwner,
) -> BayeuxConnection<S> {
    let BoundSession { mut attached, mut dialect, greeting, unanswered_text } = bound;
    for channel in std::mem::take(&mut attached.revoked) {
        dialect.dialect().notify(&unsubscribed(&channel, "forbidden"), &mut Replies::default());
    }
    let attachment = Attachment::new(attached, Arc::clone(&owner.context.client));
    let mut connection = Connection::new(socket, read, attachment, WebSocket { dialect, owner });
    let (websocket, mut link) = connection.split();
    if let Some(text) = greeting {
        Frames(&mut link.out.bytes).text(&text);
    }
    if let Some(text) = unanswered_text {
        websocket.run_commands(&text, &mut link);
    }
    connection
}

async fn bind_session<S: Socket>(
    upgraded: Upgraded<S>,
    first_text: Option<String>,
    upgrade: Arc<SocketUpgrade>,
    context: Arc<Context>,
) -> Option<(BoundSession, Upgraded<S>)> {
    // Count the socket as a handshake in progress again, because it has yet to show that it has a session.
    let address = upgrade.requester.caller.address;
    let handshake = context.handshakes.begin(address, context.client.timeouts.clock().now());
    let descriptor = upgraded.0.descriptor();
    let mut waiting = SessionlessSocket::new(upgraded, address, &context.client);
    let bound = {
        let timeout = RequestTimeout::new(&context, descriptor);
        let stopped = pin!(context.stop.cancelled());
        let mut end = ConnectionDeadline::new(&timeout, &handshake, stopped, &context);
        end.begin_reading();
        let bound = pin!(read_until_session(&mut waiting, first_text, &upgrade.requester, &context));
        serve_until(bound, &mut end).await.unwrap_or_else(|end| {
            Err(Ending::Close(match end {
                NotServed::Draining => CloseCode::Draining,
                NotServed::Timeout => CloseCode::Limit,
                eviction => {
                    context.report_refusal(&eviction, address);
                    CloseCode::Overloaded
                }
            }))
        })
    };
    drop(handshake);
    match bound {
        Ok(bound) => Some((bound, waiting.into_parts())),
        Err(over) => {
            waiting.close(over).await;
            None
        }
    }
}

async fn read_until_session<S: Socket>(
    waiting: &mut SessionlessSocket<S>,
    mut first_text: Option<String>,
    requester: &Requester,
    context: &Context,
) -> Result<BoundSession, Ending> {
    loop {
        let (text, arrival) = match first_text.take() {
            Some(text) => (text, waiting.last_arrival()),
            None => waiting.next().await?,
        };
        match read(&text, (arrival, waiting.is_closed_by_peer()), requester, context).await? {
            Ok(bound) => {
                let unanswered_text = bound.greeting.is_none().then_some(text);
                return Ok(BoundSession { unanswered_text, ..bound });
            }
            Err(replies) => waiting.send(&replies).await?,
        }
    }
}

/// Handles a text message that arrived at this time. `has_ended` is whether the client has disconnected. Returns the
/// replies if the socket still has no session. A session without a greeting has yet to answer the text.
async fn read(
    text: &str,
    (arrival, has_ended): (Arrival, bool),
    requester: &Requester,
    context: &Context,
) -> Result<Result<BoundSession, String>, Ending> {
    let client = &context.client;
    let texts = split_messages(text).map_err(|_| Ending::from(CloseCode::ProtocolError))?;
    let parsed: Vec<_> = texts.iter().map(|text| ClientMessage::parse(text)).collect();
    let first = |kind| parsed.iter().flatten().find(move |message| message.kind() == kind);
    if let Some(message) = first(MessageKind::Handshake) {
        return Ok(match open(message, requester, arrival, WEBSOCKET, context).await {
            Ok(OpenedSession { attached, acknowledges, greeting }) => {
                let client_id = attached.session.resume_token().expose();
                let dialect = BayeuxSocket::new(&client_id, acknowledges.then_some(0));
                let greeting = Some(format!("[{greeting}]"));
                Ok(BoundSession { attached, dialect, greeting, unanswered_text: None })
            }
            Err(refused) => Err(format!("[{refused}]")),
        });
    }
    let mut refused = None;
    if let Some(message) = first(MessageKind::Connect) {
        let address = requester.caller.address;
        let found = session(message, address, client).await;
        let resume =
            |found: &FoundSession| resume(message, &found.session, requester, (arrival, has_ended), client);
        let resumed = match found.as_ref().map_err(Clone::clone).and_then(resume) {
            Ok(resumed) => {
                let confirmed = client.confirm_session(&resumed.0, address).await;
                confirmed
                    .map(|()| resumed)
                    .map_err(|refusal| unavailable(message, refusal.close_code(), client))
            }
            Err(refused) => Err(refused),
        };
        match resumed {
            Ok((attached, acknowledged)) => {
                let client_id = attached.session.resume_token().expose();
                let dialect = BayeuxSocket::new(&client_id, acknowledged);
                let (greeting, unanswered_text) = (None, None);
                return Ok(Ok(BoundSession { attached, dialect, greeting, unanswered_text }));
            }
            Err(reply) => refused = Some((reply, found, refusal_reply(message, CloseCode::Normal, client))),
        }
    }
    // If there was a `/meta/connect`, the first one has already been refused.
    let (mut replies, _) = commands(parsed, requester, client, || {}).await;
    if let Some((reply, found, over)) = refused {
        // Another Bayeux message in the same array may have ended the session.
        let is_over = found.is_ok_and(|found| found.session.phase() == Phase::Closed(CloseReason::Client));
        replies.push(if is_over { &over } else { &reply });
    }
    Ok(Err(format!("[{}]", replies.0)))
}
