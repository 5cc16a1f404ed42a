use encke_broker::channel::ChannelName;

use super::step::Lifecycle;
use crate::auth::Identity;
use crate::session::subscriptions::{ClientInput, CommandSource};
use crate::session::table::{SessionCell, token_deadline};

impl Lifecycle {
    /// Applies a client's new token. Returns the channels that were unsubscribed because the token no longer
    /// allows them, or `None` if the token belongs to another user.
    pub(crate) fn refresh(
        &self,
        session: &SessionCell,
        source: CommandSource,
        identity: &Identity,
    ) -> Option<Vec<ChannelName>> {
        let mut before = None;
        let is_theirs = self.step(session, |state, step| {
            let is_theirs = state.identity.is_same_user(identity);
            if is_theirs && source.is_current(state) {
                before = Some(std::mem::replace(&mut state.identity, identity.clone()));
                state.note_change(session.reference());
                let expires = identity
                    .expires()
                    .map(|expires| token_deadline(expires, self.timeouts.clock(), step.now));
                state.machine.handle(step, source.input(ClientInput::TokenRefreshed(expires)));
            }
            is_theirs
        });
        let revoked = is_theirs.unwrap_or(true).then(|| self.subscriptions.revoke_forbidden(session));
        if let Some(before) = before {
            self.subscriptions.join_token_channels(session, identity, &before);
        }
        revoked
    }
}
