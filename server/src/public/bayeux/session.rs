//! The client of a message, its session and its identity.

use encke_core::close::CloseCode;
use encke_core::dialect::bayeux::ClientMessage;
use hyper::HeaderMap;

use crate::auth::Identity;
use crate::client::bayeux::refuse_with;
use crate::client::{Caller, Services};
use crate::session::{SessionCell, SessionHandle};

/// Client that sends messages, in an HTTP request or on a WebSocket.
pub(crate) struct Requester {
    pub(crate) caller: Caller,
    /// JWT in the query.
    pub(crate) query_token: Option<String>,
    /// Headers that the backend may receive when a session is opened.
    pub(crate) headers: HeaderMap,
}

/// Reply that refuses a message.
pub(super) type RefusalReply = String;

/// Finds the session of a message.
pub(super) fn session(
    message: &ClientMessage<'_>,
    services: &Services,
) -> Result<SessionHandle, RefusalReply> {
    let token = message.client_id().ok();
    let found = token.as_deref().and_then(|token| services.sessions.find(token));
    found.ok_or_else(|| match token.and_then(|token| services.sessions.unreported_end(&token)) {
        Some(code) => refusal_reply(message, code, services),
        None => message.reply_to().reply().unknown_session().to_json(),
    })
}

/// Checks that the client's token has not expired.
pub(super) fn check_token(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    services: &Services,
) -> Result<(), RefusalReply> {
    let now = services.timeouts.clock().unix_now();
    if session.identity().expires().is_none_or(|expires| expires > now) {
        return Ok(());
    }
    Err(refusal_reply(message, CloseCode::TokenExpired, services))
}

/// Returns the reply that sends a client away for this reason.
pub(super) fn refusal_reply(
    message: &ClientMessage<'_>,
    code: CloseCode,
    services: &Services,
) -> RefusalReply {
    refuse_with(message.reply_to().reply(), code, services).to_json()
}

/// Returns the client's identity: from a token in the request, or else from the session.
pub(super) fn identity(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    Requester { caller, query_token, .. }: &Requester,
    services: &Services,
) -> Result<Identity, RefusalReply> {
    let bad = |error: &dyn std::fmt::Display| {
        message.reply_to().reply().failed_with(400, &error.to_string()).to_json()
    };
    let token = message.token().map_err(|error| bad(&error))?;
    // If the backend has identified the client, a token that is sent again adds nothing.
    let is_decided = services.access.has_connect_hook();
    match token.as_deref().or(query_token.as_deref()) {
        token if is_decided || (token.is_none() && caller.bearer.is_none()) => {
            check_token(message, session, services)?;
            Ok(session.identity())
        }
        token => {
            services.identify_caller(caller, token).map_err(|code| refusal_reply(message, code, services))
        }
    }
}
