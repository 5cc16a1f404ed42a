use encke_broker::channel::ChannelName;
use encke_core::session::ConnectionInput;

use super::step::Lifecycle;
use crate::auth::Identity;
use crate::session::channels::SessionOutbox;
use crate::session::subscriptions::{ClientInput, CommandSource, DeliveryBatch, deliver_pending};
use crate::session::table::{Mailbox, SessionCell, SessionState, token_deadline};

impl Lifecycle {
    /// Applies a client's input. Returns whether the session still accepts input from this source afterwards.
    pub(crate) fn handle_client_input(
        &self,
        session: &SessionCell,
        source: CommandSource,
        input: ClientInput,
    ) -> bool {
        let is_current = self.step(session, |state, step| {
            state.machine.handle(step, source.input(input));
            source.is_current(state)
        });
        let is_current = is_current.unwrap_or(false);
        // The acknowledgement may have made room for more messages, and the connection does not know about
        // it.
        if source.is_out_of_band()
            && is_current
            && matches!(input, ClientInput::Ack { .. } | ClientInput::Pong { .. })
        {
            deliver_pending(&self.table, session);
        }
        is_current
    }

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

    /// Takes a batch of messages to send on a connection. `None` if the session is no longer attached to the
    /// connection, or if it panicked; what `take` has written must be discarded.
    pub(crate) fn take_outgoing(
        &self,
        session: &SessionCell,
        mailbox: &Mailbox,
        take: impl FnOnce(&mut SessionOutbox) -> DeliveryBatch,
    ) -> Option<DeliveryBatch> {
        let take = |state: &mut SessionState| {
            state.is_attached_to(mailbox.id).then(|| take(state.machine.outbox_mut()))
        };
        // This is not a step: neither the phase nor the deadlines depend on the messages taken, and deliveries
        // are too frequent for checking deadlines each time.
        let batch = self.table.change(session, take).flatten()?;
        if batch.needs_sent_notification {
            self.handle_connection(session, mailbox.id, ConnectionInput::Sent);
        }
        Some(batch)
    }
}
