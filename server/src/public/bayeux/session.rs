//! The client of a message, its session and its identity.

use std::net::IpAddr;

use encke_broker::engine::RecordUser;
use encke_core::close::CloseCode;
use encke_core::dialect::DialectName;
use encke_core::dialect::bayeux::{Advice, BadMessage, ClientMessage, MessageKind, MessageReply};
use hyper::HeaderMap;

use crate::auth::Identity;
use crate::client::bayeux::refuse_with;
use crate::client::{Caller, Refusal, Services, TokenRule, retry_delay};
use crate::session::{AcquiredSession, ClaimedSession, SessionCell, SessionHandle};

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

/// Session of a message. As long as this exists, a session that was claimed from another server waits for its client.
pub(super) struct FoundSession {
    pub(super) session: SessionHandle,
    _claimed: Option<ClaimedSession>,
}

/// Finds the session of a message, on this server or on another one. Its client must speak Bayeux: with another
/// dialect, the token that it has for resuming does not authenticate messages.
pub(super) async fn session(
    message: &ClientMessage<'_>,
    address: IpAddr,
    services: &Services,
) -> Result<FoundSession, RefusalReply> {
    let token = message.client_id().ok();
    let mut has_session = false;
    let _claimed = match &token {
        Some(token) => {
            let may_take = message.kind() == MessageKind::Connect;
            let connect = message.connect().ok().filter(|_| may_take);
            let seq = connect.and_then(|connect| connect.acknowledged);
            match services.claim_session((token, seq), may_take, (RecordUser::Unknown, address)).await {
                Ok(AcquiredSession::Here(claimed)) => {
                    has_session = true;
                    claimed
                }
                Ok(AcquiredSession::Unknown) => None,
                Ok(AcquiredSession::OnServer(_)) => {
                    return Err(unavailable(message, CloseCode::Overloaded, services));
                }
                Err(code) => return Err(unavailable(message, code, services)),
            }
        }
        None => None,
    };
    let found = token.as_deref().and_then(|token| services.sessions.find(token));
    let found = found.filter(|session| session.dialect() == DialectName::Bayeux);
    let session =
        found.ok_or_else(|| match token.and_then(|token| services.sessions.unreported_end(&token)) {
            Some(code) => refusal_reply(message, code, services),
            // Another server has just taken the session.
            None if has_session => unavailable(message, CloseCode::Overloaded, services),
            None => message.reply_to().reply().unknown_session().to_json(),
        })?;
    Ok(FoundSession { session, _claimed })
}

/// Returns the reply to a client whose session is not available at the moment.
pub(super) fn unavailable(message: &ClientMessage<'_>, code: CloseCode, services: &Services) -> RefusalReply {
    if code != CloseCode::Overloaded {
        return refusal_reply(message, code, services);
    }
    let advice = Some(Advice::pause(retry_delay(code, &services.entropy)));
    MessageReply { advice, ..message.reply_to().reply().failed_with(503, code.reason()) }.to_json()
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
