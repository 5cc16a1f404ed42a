use std::time::Duration;

use encke_core::close::CloseCode;
use encke_core::dialect::bayeux::{Ack, Advice, ClientMessage, Extensions, Reconnect, Reply, VERSION};
use encke_core::dialect::{Dialect, bayeux};
use encke_core::session::{ConnectionInput, ConnectionKind, Delivery};

use crate::client::{Attachment, Caller, Context, retry_ms};
use crate::session::{AttachRequest, Refusal};
use std::sync::Arc;

const TRANSPORTS: [&str; 3] = ["websocket", "long-polling", "callback-polling"];

/// How clients can connect.
pub(super) fn connection_types(callback_polling: bool) -> &'static [&'static str] {
    if callback_polling { &TRANSPORTS } else { &TRANSPORTS[..2] }
}

/// All that a client is told of how to ask.
pub(super) fn advice(context: &Context) -> Advice {
    let timeouts = context.sessions.settings();
    Advice {
        reconnect: Some(Reconnect::Retry),
        interval: Some(Duration::ZERO),
        timeout: Some(timeouts.poll_hold),
        max_interval: Some(timeouts.reconnect_window),
        multiple_clients: false,
    }
}

/// Opens a session. Returns the reply, and whether there is a session.
pub(super) fn handshake(
    message: &ClientMessage<'_>,
    query_token: Option<&str>,
    types: &'static [&'static str],
    caller: &Caller,
    context: &Arc<Context>,
) -> (String, bool) {
    let reply_to = message.reply_to();
    let reply = Reply { version: Some(VERSION), supported_connection_types: types, ..reply_to.reply() };
    let refused = |reply: Reply<'_>, code, error: &str, advice| {
        (Reply { advice: Some(advice), ..reply.failed_with(code, error) }.to_json(), false)
    };
    let (handshake, token) = match message.handshake().and_then(|handshake| Ok((handshake, message.token()?)))
    {
        Ok(read) => read,
        Err(error) => return refused(reply, 400, &error.to_string(), Advice::none()),
    };
    if !handshake.connection_types.iter().any(|name| types.contains(&&**name)) {
        return refused(reply, 301, "none of the connection types is supported", Advice::none());
    }
    let identity = match caller.identify(token.as_deref().or(query_token), context) {
        Ok(identity) => identity,
        Err(code) => {
            let retry = Duration::from_millis(retry_ms(code, &context.entropy));
            let advice = if code.invites_back() { Advice::handshake(retry) } else { Advice::none() };
            return refused(reply, 401, code.reason(), advice);
        }
    };
    let request = |may_open| AttachRequest {
        resume: None,
        seq: None,
        identity,
        address: caller.address,
        kind: ConnectionKind::Poll { hold: Duration::ZERO },
        dialect: bayeux::Bayeux::NAME,
        delivery: Delivery::default(),
        may_open,
        only_resume: false,
    };
    let attached = match context.attach(caller.address, request, || false) {
        Ok(attached) => attached,
        Err(refusal) => {
            let code = if refusal == Refusal::Draining { CloseCode::Draining } else { CloseCode::Overloaded };
            let retry = Duration::from_millis(retry_ms(code, &context.entropy));
            return refused(reply, 503, code.reason(), Advice::handshake(retry));
        }
    };
    let client_id = attached.session.resume_token().expose();
    // The answer is all that there is of this connection.
    let attachment = Attachment::new(attached, Arc::clone(context));
    attachment.tell(ConnectionInput::Sent);
    attachment.tell(ConnectionInput::Answered { pause: Duration::ZERO });
    let ack = handshake.acknowledges.then_some(Ack::Supported(true));
    let reply = Reply {
        client_id: Some(&client_id),
        advice: Some(advice(context)),
        ext: Extensions { ack, ..Extensions::default() },
        ..reply.succeeded()
    };
    (reply.to_json(), true)
}
