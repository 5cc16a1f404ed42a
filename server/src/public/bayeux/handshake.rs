use std::sync::Arc;
use std::time::Duration;

use encke_core::dialect::Dialect;
use encke_core::dialect::bayeux::{Ack, Advice, Bayeux, ClientMessage, Extensions, MessageReply, VERSION};
use encke_core::session::{ConnectionInput, ConnectionKind, DeliveryMode};

use super::session::{RefusalReply, Requester};
use crate::client::bayeux::advice;
use crate::client::{AdmitRequest, Attachment};
use crate::public::context::Context;
use crate::session::{Arrival, Attached, SessionRequest};

/// Connection types. `cross-origin-long-polling` is what Faye's client calls forms that a page sends to
/// another origin.
const TRANSPORTS: [&str; 4] = ["websocket", "long-polling", "cross-origin-long-polling", "callback-polling"];

/// Kind of the connection on which an HTTP request opens a session. It ends with the reply.
const POLL: ConnectionKind = ConnectionKind::Poll { hold: Duration::ZERO };

/// A session that was opened by a handshake.
pub(super) struct OpenedSession {
    pub(super) attached: Attached,
    /// Whether the client acknowledges messages.
    pub(super) acknowledges: bool,
    /// Reply to the handshake.
    pub(super) greeting: String,
}

/// Opens a session with a connection of this kind. If necessary, the client is authenticated by the backend
/// first.
pub(super) async fn open(
    message: &ClientMessage<'_>,
    Requester { caller, query_token, headers }: &Requester,
    arrival: Arrival,
    kind: ConnectionKind,
    context: &Context,
) -> Result<OpenedSession, RefusalReply> {
    let services = &context.client;
    let types = if context.bayeux.callback_polling { &TRANSPORTS } else { &TRANSPORTS[..3] };
    let reply_to = message.reply_to();
    let reply =
        || MessageReply { version: Some(VERSION), supported_connection_types: types, ..reply_to.reply() };
    // Ignore an unreadable token for now: the reply to the handshake reports it.
    let token = message.token();
    let own = token.as_ref().ok().and_then(Option::as_deref).or(query_token.as_deref());
    let mut wanted =
        AdmitRequest { token: own.map(ToOwned::to_owned), session: SessionRequest::new(kind, Bayeux::NAME) };
    let decision = match services.needs_async_auth(caller, own) {
        true => Some(services.authenticate((caller, headers), &wanted).await),
        false => None,
    };
    let upgraded = caller.arrival;
    let caller = caller.clone().with_decision(decision).with_arrival(arrival);
    let refused = |code, error: &str| {
        MessageReply { advice: Some(Advice::none()), ..reply().failed_with(code, error) }.to_json()
    };
    let handshake = message.handshake().and_then(|handshake| token.map(|_| handshake));
    let handshake = handshake.map_err(|error| refused(400, &error.to_string()))?;
    if !handshake.connection_types.iter().any(|name| types.contains(&&**name)) {
        return Err(refused(301, "none of the connection types is supported"));
    }
    let acknowledges = handshake.acknowledges;
    wanted.session.upgraded = (kind != POLL).then_some(upgraded);
    wanted.session.delivery = if acknowledges { DeliveryMode::AtLeastOnce } else { DeliveryMode::AtMostOnce };
    let attached = services
        .admit(&caller, wanted, &[], || false)
        .map_err(|refusal| refusal.handshake_reply(reply(), services).to_json())?;
    let ack = acknowledges.then_some(Ack::Supported(true));
    let greeting = MessageReply {
        client_id: Some(&attached.session.resume_token().expose()),
        advice: Some(advice(services)),
        ext: Extensions { ack, ..Extensions::default() },
        ..reply().succeeded()
    }
    .to_json();
    Ok(OpenedSession { attached, acknowledges, greeting })
}

/// Opens a session with an HTTP request. The session has no connection after the reply, which is returned.
pub(super) async fn handshake(
    message: &ClientMessage<'_>,
    requester: &Requester,
    context: &Context,
) -> Result<String, RefusalReply> {
    let OpenedSession { attached, greeting, .. } =
        open(message, requester, requester.caller.arrival, POLL, context).await?;
    // A new session is not refused.
    _ = context.client.confirm_session(&attached, requester.caller.address).await;
    let attachment = Attachment::new(attached, Arc::clone(&context.client));
    attachment.notify_session(ConnectionInput::Sent);
    attachment.notify_session(ConnectionInput::Answered { pause: Duration::ZERO });
    Ok(greeting)
}
