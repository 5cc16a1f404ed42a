use encke_broker::channel::ChannelName;
use encke_core::close::CloseCode;
use encke_core::dialect::CommandError;

use super::CommandContext;
use super::errors::forbidden;
use crate::admission::TokenSender;
use crate::auth::AuthError;
use crate::client::IdentifyError;

/// Replaces the client's token, and unsubscribes from the channels that the new token does not allow. Returns
/// these channels.
pub(super) fn refresh(context: CommandContext<'_>, token: &str) -> Result<Vec<ChannelName>, CommandError> {
    let CommandContext { session, services, source } = context;
    if services.access.has_connect_hook() {
        return Err(forbidden(
            "tokens cannot be refreshed: the backend authenticates clients when they connect",
        ));
    }
    let sender = TokenSender { session: Some(session.id().number()), address: source.address() };
    let identity = services.identify(Some(token), sender).inspect_err(|error| {
        if *error == IdentifyError::BadToken(AuthError::BadSignature) {
            // The token is forged. Checking more such tokens would cost the server more than the client.
            services.limits.refusals.record(error.reason(), source.address(), error);
            session.close_connection(source, CloseCode::Unauthorized);
        }
    })?;
    let revoked = services.sessions.lifecycle.refresh(session, source, &identity);
    revoked.ok_or_else(|| forbidden("the token belongs to another user"))
}
