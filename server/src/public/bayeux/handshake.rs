use std::sync::Arc;
use std::time::Duration;

use encke_core::dialect::Dialect;
use encke_core::dialect::bayeux::{Ack, Advice, Bayeux, ClientMessage, Extensions, MessageReply, VERSION};
use encke_core::session::{ConnectionInput, ConnectionKind, DeliveryMode};
use hyper::header::HeaderMap;

use super::session::RefusalReply;
use crate::client::bayeux::advice;
use crate::client::{AdmitRequest, Attachment, Caller, Services};
use crate::session::{Attached, SessionRequest};

/// Connection types. `cross-origin-long-polling` is what Faye's client calls forms that a page sends to
/// another origin.
const TRANSPORTS: [&str; 4] = ["websocket", "long-polling", "cross-origin-long-polling", "callback-polling"];

/// Kind of the connection on which an HTTP request opens a session. It ends with the reply.
pub(super) const POLL: ConnectionKind = ConnectionKind::Poll { hold: Duration::ZERO };

/// Returns the supported connection types.
pub(super) fn connection_types(callback_polling: bool) -> &'static [&'static str] {
    if callback_polling { &TRANSPORTS } else { &TRANSPORTS[..3] }
}

/// A session that was opened by a handshake.
pub(super) struct OpenedSession {
    pub(super) attached: Attached,
    pub(super) client_id: String,
    /// Whether the client acknowledges messages.
    pub(super) acknowledges: bool,
}

/// Returns the caller of a handshake, authenticated by the backend if that is configured.
pub(super) async fn authenticate_caller(
    message: &ClientMessage<'_>,
    query_token: Option<&str>,
    (caller, headers): (&Caller, &HeaderMap),
    kind: ConnectionKind,
    services: &Services,
) -> Caller {
    // Ignore an unreadable token: the reply to the handshake reports it.
    let token = message.token().ok().flatten();
    let token = token.as_deref().or(query_token);
    if !services.needs_async_auth(caller, token) {
        return caller.clone();
    }
    let token = token.map(ToOwned::to_owned);
    let request = AdmitRequest { token, session: SessionRequest::new(kind, Bayeux::NAME) };
    let decision = services.authenticate((caller, headers), &request).await;
    caller.clone().with_decision(Some(decision))
}

/// Opens a session with a connection of this kind.
pub(super) fn open(
    message: &ClientMessage<'_>,
    query_token: Option<&str>,
    types: &'static [&'static str],
    kind: ConnectionKind,
    caller: &Caller,
    services: &Services,
) -> Result<OpenedSession, RefusalReply> {
    let reply_to = message.reply_to();
    let refused = |code, error: &str| {
        let reply = reply(reply_to.reply(), types).failed_with(code, error);
        MessageReply { advice: Some(Advice::none()), ..reply }.to_json()
    };
    let (handshake, token) = message
        .handshake()
        .and_then(|handshake| Ok((handshake, message.token()?)))
        .map_err(|error| refused(400, &error.to_string()))?;
    if !handshake.connection_types.iter().any(|name| types.contains(&&**name)) {
        return Err(refused(301, "none of the connection types is supported"));
    }
    let acknowledges = handshake.acknowledges;
    let request = AdmitRequest {
        token: token.as_deref().or(query_token).map(ToOwned::to_owned),
        session: SessionRequest {
            delivery: if acknowledges { DeliveryMode::AtLeastOnce } else { DeliveryMode::AtMostOnce },
            ..SessionRequest::new(kind, Bayeux::NAME)
        },
    };
    let attached = services
        .admit(caller, request, &[], || false)
        .map_err(|refusal| refusal.handshake_reply(reply(reply_to.reply(), types), services).to_json())?;
    let client_id = attached.session.resume_token().expose().to_string();
    Ok(OpenedSession { attached, client_id, acknowledges })
}

fn reply<'a>(reply: MessageReply<'a>, types: &'static [&'static str]) -> MessageReply<'a> {
    MessageReply { version: Some(VERSION), supported_connection_types: types, ..reply }
}

/// Returns the reply to a handshake that has opened a session.
pub(super) fn greeting(
    message: &ClientMessage<'_>,
    opened: &OpenedSession,
    types: &'static [&'static str],
    services: &Services,
) -> String {
    let reply_to = message.reply_to();
    let ack = opened.acknowledges.then_some(Ack::Supported(true));
    let reply = MessageReply {
        client_id: Some(&opened.client_id),
        advice: Some(advice(services)),
        ext: Extensions { ack, ..Extensions::default() },
        ..reply(reply_to.reply(), types).succeeded()
    };
    reply.to_json()
}

/// Opens a session with an HTTP request. The session has no connection after the reply. Returns the reply,
/// and whether a session was opened.
pub(super) fn handshake(
    message: &ClientMessage<'_>,
    query_token: Option<&str>,
    types: &'static [&'static str],
    caller: &Caller,
    services: &Arc<Services>,
) -> (String, bool) {
    let opened = match open(message, query_token, types, POLL, caller, services) {
        Ok(opened) => opened,
        Err(refused) => return (refused, false),
    };
    let greeting = greeting(message, &opened, types, services);
    let attachment = Attachment::new(opened.attached, Arc::clone(services));
    attachment.notify_session(ConnectionInput::Sent);
    attachment.notify_session(ConnectionInput::Answered { pause: Duration::ZERO });
    (greeting, true)
}
