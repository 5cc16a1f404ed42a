//! The session of a message, and who its client is.

use encke_core::close::CloseCode;
use encke_core::dialect::bayeux::ClientMessage;

use crate::auth::Identity;
use crate::client::bayeux::turned_away;
use crate::client::{Caller, Context};
use crate::session::{SessionCell, SessionHandle};

/// Why a message gets no more than this reply.
pub(super) type Refused = String;

/// The session of a message.
pub(super) fn session(message: &ClientMessage<'_>, context: &Context) -> Result<SessionHandle, Refused> {
    let token = message.client_id().ok();
    let found = token.as_deref().and_then(|token| context.sessions.find(token));
    found.ok_or_else(|| match token.and_then(|token| context.sessions.untold_end(&token)) {
        Some(code) => told(message, code, context),
        None => message.reply_to().reply().of_no_session().to_json(),
    })
}

/// Whether the client's token still holds.
pub(super) fn check_token(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    context: &Context,
) -> Result<(), Refused> {
    let now = context.timeouts.clock().unix_now();
    if session.identity().expires().is_none_or(|expires| expires > now) {
        return Ok(());
    }
    Err(told(message, CloseCode::TokenExpired, context))
}

/// The reply to a client that is turned away for this reason.
pub(super) fn told(message: &ClientMessage<'_>, code: CloseCode, context: &Context) -> Refused {
    turned_away(message.reply_to().reply(), code, context).to_json()
}

/// Who the client is: by a token that comes with the request, or as before.
pub(super) fn identity(
    message: &ClientMessage<'_>,
    session: &SessionCell,
    (caller, query_token): (&Caller, Option<&str>),
    context: &Context,
) -> Result<Identity, Refused> {
    let bad = |error: &dyn std::fmt::Display| {
        message.reply_to().reply().failed_with(400, &error.to_string()).to_json()
    };
    let token = message.token().map_err(|error| bad(&error))?;
    // The backend has said who this is: a token that comes again and again says no more.
    let is_decided = context.asks_who_comes();
    match token.as_deref().or(query_token) {
        token if is_decided || (token.is_none() && !caller.has_token()) => {
            check_token(message, session, context)?;
            Ok(session.identity())
        }
        token => caller.identify(token, context).map_err(|code| told(message, code, context)),
    }
}
