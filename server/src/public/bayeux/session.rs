//! The client of a message, its session and its identity.

use encke_core::close::CloseCode;
use encke_core::dialect::DialectName;
use encke_core::dialect::bayeux::{BadMessage, ClientMessage, MessageKind};
use hyper::HeaderMap;

use crate::auth::Identity;
use crate::client::bayeux::refuse_with;
use crate::client::{Caller, Refusal, Services, TokenRule};
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

/// Finds the session of a message. Its client must speak Bayeux: with another dialect, the token that it has for
/// resuming does not authenticate messages.
pub(super) fn session(
    message: &ClientMessage<'_>,
    services: &Services,
) -> Result<SessionHandle, RefusalReply> {
    let token = message.client_id().ok();
    let found = token.as_deref().and_then(|token| services.sessions.find(token));
    let found = found.filter(|session| session.dialect() == DialectName::Bayeux);
    found.ok_or_else(|| match token.and_then(|token| services.sessions.unreported_end(&token)) {
        Some(code) => refusal_reply(message, code, services),
        None => message.reply_to().reply().unknown_session().to_json(),
    })
}

/// Checks that the client may send a command to this session.
pub(super) fn check_command(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    requester: &Requester,
    services: &Services,
) -> Result<(), RefusalReply> {
    let now = services.timeouts.clock().unix_now();
    let has_expired = session.identity().expires().is_some_and(|expires| expires <= now);
    let identified = match has_expired {
        true => Err(Refusal::Unidentified(CloseCode::TokenExpired)),
        false => identify(message, session, requester, services)?,
    };
    match identified {
        // A client needs no new token to disconnect: it has the session's secret.
        Err(Refusal::Unidentified(CloseCode::TokenExpired)) if message.kind() == MessageKind::Disconnect => {
            Ok(())
        }
        identified => {
            identified.map(drop).map_err(|refusal| refusal_reply(message, refusal.close_code(), services))
        }
    }
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
    requester: &Requester,
    services: &Services,
) -> Result<Identity, RefusalReply> {
    let identified = identify(message, session, requester, services)?;
    identified.map_err(|refusal| refusal_reply(message, refusal.close_code(), services))
}

/// Like [`identity`], but refuses only a malformed message with a reply.
fn identify(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    Requester { caller, query_token, .. }: &Requester,
    services: &Services,
) -> Result<Result<Identity, Refusal>, RefusalReply> {
    let bad = |error: BadMessage| message.reply_to().reply().failed_with(400, &error.to_string()).to_json();
    let token = message.token().map_err(bad)?;
    let token = token.as_deref().or(query_token.as_deref());
    Ok(services.identify_for_session(caller, token, session, TokenRule::Optional))
}
