use encke_core::close::CloseCode;
use encke_core::dialect::{Dialect, Success, TextSink};

use super::errors::forbidden;
use super::{CommandContext, CommandHandler, CommandOutcome};
use crate::auth::AuthError;
use crate::client::{IdentifyError, unsubscribed};

/// Replaces the client's token, and unsubscribes from the channels that the new token does not allow.
pub(super) fn refresh(
    token: &str,
    handler: &mut CommandHandler<'_, impl Dialect, impl TextSink>,
) -> CommandOutcome {
    let CommandContext { session, services, source } = handler.context;
    if services.access.has_connect_hook() {
        return Err(forbidden(
            "tokens cannot be refreshed: the backend authenticates clients when they connect",
        ));
    }
    let identity = services.identify(Some(token), source.address()).inspect_err(|error| {
        if *error == IdentifyError::BadToken(AuthError::BadSignature) {
            // The token is forged. Checking more such tokens would cost the server more than the client.
            services.limits.refusals.record(error.reason(), source.address(), error);
            session.close_connection(source, CloseCode::Unauthorized);
        }
    })?;
    let Some(revoked) = services.sessions.lifecycle.refresh(session, source, &identity) else {
        return Err(forbidden("the token belongs to another user"));
    };
    for channel in &revoked {
        handler.dialect.notify(&unsubscribed(channel, "forbidden"), handler.out);
    }
    Ok(Success::Done)
}
