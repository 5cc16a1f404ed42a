use std::sync::Arc;
use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::Dialect;
use encke_core::dialect::bayeux::{Ack, Advice, Bayeux, ClientMessage, Extensions, Reply, VERSION};
use encke_core::session::{ConnectionInput, ConnectionKind, Delivery};
use hyper::header::HeaderMap;

use super::session::Refused;
use crate::client::bayeux::{advice, retry};
use crate::client::{Attachment, Caller, Coming, Context};
use crate::session::{AttachRequest, Attached, Refusal, Transport};

/// Faye's client has a name of its own for forms that a page sends to another origin.
const TRANSPORTS: [&str; 4] = ["websocket", "long-polling", "cross-origin-long-polling", "callback-polling"];

/// How clients can connect.
pub(super) fn connection_types(callback_polling: bool) -> &'static [&'static str] {
    if callback_polling { &TRANSPORTS } else { &TRANSPORTS[..3] }
}

/// A session that a handshake has opened.
pub(super) struct Opened {
    pub(super) attached: Attached,
    pub(super) client_id: String,
    /// Whether its client acknowledges what it gets.
    pub(super) acknowledges: bool,
}

/// The caller of a handshake, once the backend has said who it is, if that is asked.
pub(super) async fn shakes_hands(
    message: &ClientMessage<'_>,
    query_token: Option<&str>,
    (caller, headers): (&Caller, &HeaderMap),
    transport: Transport,
    context: &Context,
) -> Caller {
    // One that cannot be read is told so in its reply.
    let token = message.token().ok().flatten();
    let token = token.as_deref().or(query_token);
    if !context.asks_first(caller, token) {
        return caller.clone();
    }
    let dialect = Bayeux::NAME;
    let coming = Coming { caller, headers, token, resume: None, only_resume: false, transport, dialect };
    let decision = context.who_comes(coming).await;
    caller.clone().decided(Some(decision))
}

/// Opens a session with a connection of this kind.
pub(super) fn open(
    message: &ClientMessage<'_>,
    query_token: Option<&str>,
    types: &'static [&'static str],
    kind: ConnectionKind,
    caller: &Caller,
    context: &Context,
) -> Result<Opened, Refused> {
    let reply_to = message.reply_to();
    let refused = |code, error: &str, advice| {
        let reply = reply(reply_to.reply(), types).failed_with(code, error);
        Reply { advice: Some(advice), ..reply }.to_json()
    };
    let (handshake, token) = message
        .handshake()
        .and_then(|handshake| Ok((handshake, message.token()?)))
        .map_err(|error| refused(400, &error.to_string(), Advice::none()))?;
    if !handshake.connection_types.iter().any(|name| types.contains(&&**name)) {
        return Err(refused(301, "none of the connection types is supported", Advice::none()));
    }
    let later = |code| Advice::handshake(retry(code, context));
    let identity = caller.identify(token.as_deref().or(query_token), context).map_err(|code| {
        let status = if code == CloseCode::Overloaded { 503 } else { 401 };
        refused(status, code.reason(), if code.invites_back() { later(code) } else { Advice::none() })
    })?;
    let acknowledges = handshake.acknowledges;
    let request = |may_open| AttachRequest {
        resume: None,
        seq: None,
        identity,
        address: caller.address,
        kind,
        dialect: Bayeux::NAME,
        delivery: if acknowledges { Delivery::AtLeastOnce } else { Delivery::AtMostOnce },
        may_open,
        only_resume: false,
    };
    let attached = context.attach(caller.address, request, || false).map_err(|refusal| {
        let code = match refusal {
            Refusal::Draining | Refusal::Moved => CloseCode::Draining,
            _ => CloseCode::Overloaded,
        };
        refused(503, code.reason(), later(code))
    })?;
    let client_id = attached.session.resume_token().expose().to_string();
    Ok(Opened { attached, client_id, acknowledges })
}

fn reply<'a>(reply: Reply<'a>, types: &'static [&'static str]) -> Reply<'a> {
    Reply { version: Some(VERSION), supported_connection_types: types, ..reply }
}

/// The reply to a handshake that has opened a session.
pub(super) fn greeting(
    message: &ClientMessage<'_>,
    opened: &Opened,
    types: &'static [&'static str],
    context: &Context,
) -> String {
    let reply_to = message.reply_to();
    let ack = opened.acknowledges.then_some(Ack::Supported(true));
    let reply = Reply {
        client_id: Some(&opened.client_id),
        advice: Some(advice(context)),
        ext: Extensions { ack, ..Extensions::default() },
        ..reply(reply_to.reply(), types).succeeded()
    };
    reply.to_json()
}

/// Opens a session by a request. The reply is all that there is of this connection. Says whether there is a session.
pub(super) fn handshake(
    message: &ClientMessage<'_>,
    query_token: Option<&str>,
    types: &'static [&'static str],
    caller: &Caller,
    context: &Arc<Context>,
) -> (String, bool) {
    let kind = ConnectionKind::Poll { hold: Duration::ZERO };
    let opened = match open(message, query_token, types, kind, caller, context) {
        Ok(opened) => opened,
        Err(refused) => return (refused, false),
    };
    let greeting = greeting(message, &opened, types, context);
    let attachment = Attachment::new(opened.attached, Arc::clone(context));
    attachment.tell(ConnectionInput::Sent);
    attachment.tell(ConnectionInput::Answered { pause: Duration::ZERO });
    (greeting, true)
}
