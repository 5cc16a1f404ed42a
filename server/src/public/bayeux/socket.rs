//! WebSockets of Bayeux. One has no session until a message opens one, or asks for what is new in one.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;

use encke_core::close::{CloseCode, CloseReason};
use encke_core::dialect::Dialect;
use encke_core::dialect::bayeux::{ClientMessage, MessageKind, messages};
use encke_core::session::Phase;
use futures_util::future::{BoxFuture, Either, select};
use hyper::header::HeaderMap;

use super::command::{Replies, command};
use super::connect::{WEBSOCKET, resume};
use super::handshake::{Opened, connection_types, greeting, open, shakes_hands};
use super::session::{session, told};
use crate::admission::OpenConnection;
use crate::client::{Attachment, Caller, unsubscribed};
use crate::public::Context;
use crate::session::{Attached, SessionHandle, Transport};
use crate::transport::Socket;
use crate::transport::websocket::{self, BayeuxSocket, Holder, Over, Upgraded, Waiting};

/// A request that was answered with 101.
pub(crate) struct SocketUpgrade {
    pub(crate) caller: Caller,
    pub(crate) query_token: Option<String>,
    /// Those of which the backend may be told when a session is opened.
    pub(crate) headers: HeaderMap,
    /// Held until the socket is closed.
    pub(crate) _open_connection: OpenConnection,
}

/// What every session of a WebSocket has in common.
struct Shared {
    upgrade: Arc<SocketUpgrade>,
    context: Arc<Context>,
}

impl<S: Socket> Holder<S> for Shared {
    type AtRest = Self;

    fn rest(self) -> Self {
        self
    }

    fn wake(at_rest: Self) -> Self {
        at_rest
    }

    fn open_anew(self, socket: Upgraded<S>, text: String) -> BoxFuture<'static, ()> {
        Box::pin(go_on(socket, Some(text), self))
    }
}

/// A connection that has a session.
struct Begun {
    attached: Attached,
    dialect: BayeuxSocket,
    /// What is said first.
    greeting: Option<String>,
    /// What the client has said, and has no reply to.
    first: Option<String>,
}

/// Serves a WebSocket to its end, once it is upgraded. While it has a session, its task holds the connection and little more.
pub(crate) fn serve<S: Socket>(
    upgrade: SocketUpgrade,
    upgraded: impl Future<Output = Option<Upgraded<S>>> + Send + 'static,
    context: Arc<Context>,
) -> impl Future<Output = ()> + Send {
    let (upgraded, shared) = (Box::pin(upgraded), Shared { upgrade: Arc::new(upgrade), context });
    async move {
        let Some(socket) = upgraded.await else { return };
        go_on(socket, None, shared).await;
    }
}

/// Serves a WebSocket without a session. `text` has been read already.
fn go_on<S: Socket>(
    socket: Upgraded<S>,
    text: Option<String>,
    shared: Shared,
) -> impl Future<Output = ()> + Send {
    let mut opening = Some((socket, text, shared));
    async move {
        // A client may give its session up for another.
        while let Some((socket, text, shared)) = opening.take() {
            let Shared { upgrade, context } = &shared;
            let beginning = begin(socket, text, Arc::clone(upgrade), Arc::clone(context));
            let Some((begun, begun_on)) = Box::pin(beginning).await else { return };
            let Begun { mut attached, mut dialect, greeting, first } = begun;
            for channel in std::mem::take(&mut attached.revoked) {
                dialect.notify(&unsubscribed(&channel, "forbidden"), &mut Replies::default());
            }
            let attachment = Attachment::new(attached, Arc::clone(&context.client));
            let serving = websocket::serve_begun(begun_on, attachment, dialect, (greeting, first), shared);
            opening = serving.await.map(|(socket, text, shared)| (socket, Some(text), shared));
        }
    }
}

async fn begin<S: Socket>(
    upgraded: Upgraded<S>,
    said_already: Option<String>,
    upgrade: Arc<SocketUpgrade>,
    context: Arc<Context>,
) -> Option<(Begun, Upgraded<S>)> {
    // It counts as one in the handshake once more: it has not shown that it has a session.
    let now = context.client.timeouts.clock().now();
    let handshake = context.handshakes.begin(upgrade.caller.address, now);
    let mut waiting = Waiting::new(upgraded, upgrade.caller.address, &context.client).await;
    let begun = {
        let timeout = context.client.timeouts.sleep(context.handshake_timeout);
        let cut = poll_fn(|task| handshake.poll_cut(task));
        let begun = pin!(until_begun(&mut waiting, said_already, &upgrade, &context));
        let stopped = pin!(context.stop.cancelled());
        match select(begun, select(select(timeout, cut), stopped)).await {
            Either::Left((begun, _)) => begun,
            Either::Right((Either::Left((timeout_or_cut, _)), _)) => Err(match timeout_or_cut {
                Either::Left(_) => CloseCode::Limit.into(),
                Either::Right(_) => {
                    context.refused(&context.cut(), upgrade.caller.address);
                    CloseCode::Overloaded.into()
                }
            }),
            Either::Right((Either::Right(_), _)) => Err(CloseCode::Draining.into()),
        }
    };
    drop(handshake);
    match begun {
        Ok(begun) => Some((begun, waiting.into_parts())),
        Err(over) => {
            waiting.close(over, &context.client).await;
            None
        }
    }
}

async fn until_begun<S: Socket>(
    waiting: &mut Waiting<S>,
    mut said_already: Option<String>,
    upgrade: &SocketUpgrade,
    context: &Context,
) -> Result<Begun, Over> {
    loop {
        let text = match said_already.take() {
            Some(text) => text,
            None => waiting.next().await?,
        };
        match read(&text, waiting.is_over(), upgrade, context).await? {
            Read::Begun(begun) => return Ok(begun),
            Read::Resumed(attached, dialect) => {
                return Ok(Begun { attached, dialect, greeting: None, first: Some(text) });
            }
            Read::Replies(replies) => waiting.say(replies).await?,
        }
    }
}

/// What comes of a text.
enum Read {
    Begun(Begun),
    Resumed(Attached, BayeuxSocket),
    Replies(String),
}

async fn read(text: &str, has_ended: bool, upgrade: &SocketUpgrade, context: &Context) -> Result<Read, Over> {
    let SocketUpgrade { caller, query_token, headers, .. } = upgrade;
    let (client, query_token) = (&context.client, query_token.as_deref());
    let texts = messages(text).map_err(|_| Over::from(CloseCode::ProtocolError))?;
    let parsed: Vec<_> = texts.iter().map(|text| ClientMessage::parse(text)).collect();
    let first = |kind| parsed.iter().flatten().find(move |message| message.kind() == kind);
    if let Some(message) = first(MessageKind::Handshake) {
        let types = connection_types(context.bayeux.callback_polling);
        let caller =
            shakes_hands(message, query_token, (caller, headers), Transport::WebSocket, client).await;
        return Ok(match open(message, query_token, types, WEBSOCKET, &caller, client) {
            Ok(opened) => {
                let greeting = Some(format!("[{}]", greeting(message, &opened, types, client)));
                let Opened { attached, client_id, acknowledges } = opened;
                let dialect = BayeuxSocket::new(&client_id, acknowledges.then_some(0));
                Read::Begun(Begun { attached, dialect, greeting, first: None })
            }
            Err(refused) => Read::Replies(format!("[{refused}]")),
        });
    }
    let mut refused = None;
    if let Some(message) = first(MessageKind::Connect) {
        let found = session(message, client);
        let resume =
            |session: &SessionHandle| resume(message, session, (caller, query_token), has_ended, client);
        match found.as_ref().map_err(Clone::clone).and_then(resume) {
            Ok((attached, acknowledged)) => {
                let client_id = attached.session.resume_token().expose();
                return Ok(Read::Resumed(attached, BayeuxSocket::new(&client_id, acknowledged)));
            }
            Err(reply) => refused = Some((reply, found, told(message, CloseCode::Normal, client))),
        }
    }
    let (mut replies, mut is_first) = (Replies::default(), true);
    for message in parsed {
        match message {
            // It has been refused.
            Ok(message) if message.kind() == MessageKind::Connect && std::mem::take(&mut is_first) => {}
            Ok(message) => _ = command(message, caller.address, client, &mut replies).await,
            Err(error) => replies.push(&error.reply()),
        }
    }
    if let Some((reply, found, over)) = refused {
        // What came with it may have ended the session.
        let is_over = found.is_ok_and(|session| session.phase() == Phase::Closed(CloseReason::Client));
        replies.push(if is_over { &over } else { &reply });
    }
    Ok(Read::Replies(format!("[{}]", replies.0)))
}
