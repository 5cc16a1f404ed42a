//! Subscriptions that begin or end without a request from the client: either the backend calls the API, or
//! the token names the channel. The outbox notifies the client.

use std::fmt::Display;
use std::sync::{Arc, Weak};

use encke_base::quota::QuotaOwner;
use encke_broker::channel::ChannelName;
use encke_broker::engine::{EngineError, EngineResponse, RetryBackoff};
use encke_core::dialect::{ErrorCode, StartPosition};
use encke_core::session::Phase;

use super::join_authoriser::JoinAuthoriser;
use super::subscribe::{SubscriptionOrigin, Subscriptions};
use super::subscribe_outcome::{SubscribeError, SubscribeOutcome};
use super::subscriber::deliver_pending;
use crate::auth::Identity;
use crate::session::table::{Rename, SessionCell};

/// Origin of a subscription to a channel that the token names. The token must allow it.
const TOKEN_JOIN: SubscriptionOrigin = SubscriptionOrigin::Server { granted: false };

impl Subscriptions {
    /// Subscribes a session on behalf of the backend, regardless of what the client's token allows. Has no
    /// effect if the session is already subscribed.
    pub(crate) fn subscribe_by_backend(
        self: &Arc<Self>,
        session: &SessionCell,
        name: &ChannelName,
        begin: &StartPosition<'_>,
    ) -> EngineResponse<Result<SubscribeOutcome, SubscribeError>> {
        self.subscribe_as(
            session,
            SubscriptionOrigin::Server { granted: true },
            || QuotaOwner::Operator,
            name,
            begin,
        )
    }

    /// Unsubscribes a session on behalf of the backend. Either name of a replaced channel may be used. Has no effect
    /// if the session is not subscribed.
    ///
    /// # Errors
    /// Returns [`SubscribeError`] if the session has ended or moved.
    pub(crate) fn unsubscribe_by_backend(
        &self,
        session: &SessionCell,
        name: &ChannelName,
    ) -> Result<(), SubscribeError> {
        let removed = self.table.change(session, |state| {
            match state.machine.phase() {
                Phase::Closed(_) => return Err(SubscribeError::Ended),
                Phase::Moved => return Err(SubscribeError::Draining),
                Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended => {}
            }
            let found = state.find_by_either_name(name.as_str());
            let found = found.map(|(slot, subscription)| (slot, subscription.clone()));
            if let Some((slot, subscription)) = &found {
                state.machine.outbox_mut().unsubscribe_with_notice(*slot);
                state.forget_renames(subscription.channel.name());
                self.join_leave().enqueue_leave(session, &state.identity, subscription);
                state.note_change(session.reference());
            }
            Ok(found)
        });
        let removed = removed.unwrap_or(Err(SubscribeError::Ended))?;
        if let Some((_, subscription)) = removed {
            self.complete_unsubscribe(&subscription);
            deliver_pending(&self.table, session);
        }
        Ok(())
    }

    /// Subscribes a session to the channels that its new token names and the previous token did not name, if the
    /// backend allows it. The backend is not asked about channels that it has named itself. The client receives a
    /// notice of each new subscription.
    pub(crate) fn join_token_channels(
        self: &Arc<Self>,
        session: &SessionCell,
        identity: &Identity,
        before: &Identity,
    ) {
        let new = identity.joins().filter(|name| !before.joins().any(|known| known == *name));
        let new: Vec<ChannelName> = new.filter_map(|name| ChannelName::new(name, usize::MAX).ok()).collect();
        if new.is_empty() {
            return;
        }
        let creator = identity.shared_user().map_or(QuotaOwner::Operator, QuotaOwner::User);
        match self.join_authoriser().filter(|_| !identity.is_from_backend()) {
            None => {
                new.into_iter().for_each(|name| self.join_channel(session, &creator, Rename::none(name)));
            }
            Some(authoriser) => {
                let (this, session) = (Arc::clone(self), self.table.clone_handle(session));
                let joining = async move { this.join_approved(&session, &creator, new, &authoriser).await };
                self.executor.spawn(Box::pin(joining));
            }
        }
    }

    /// Asks the backend about the channels that the token names, and joins the allowed ones. Sends one request at a
    /// time, to leave room for requests of the client's own commands.
    async fn join_approved(
        self: &Arc<Self>,
        session: &SessionCell,
        creator: &QuotaOwner,
        channels: Vec<ChannelName>,
        authoriser: &Weak<dyn JoinAuthoriser>,
    ) {
        let mut pauses = RetryBackoff::new();
        for requested in channels {
            let approved = loop {
                // The client may have left, and the server may be stopping.
                let has_ended = matches!(session.phase(), Phase::Closed(_) | Phase::Moved);
                let Some(authoriser) = authoriser.upgrade().filter(|_| !has_ended) else { return };
                match authoriser.authorise(session, creator.clone(), &requested).await {
                    Err(error) if error.code == ErrorCode::Overloaded => {
                        self.timeouts.sleep(pauses.next_delay()).await;
                    }
                    approved => break approved,
                }
            };
            match approved {
                Ok(actual) => self.join_channel(session, creator, Rename { requested, actual }),
                Err(error) => log_failed_join(session, &requested, &error),
            }
        }
    }

    /// Joins a channel that the token names, or the one that the backend named instead.
    fn join_channel(self: &Arc<Self>, session: &SessionCell, creator: &QuotaOwner, channel: Rename) {
        let joined = self.join_by_token(session, creator, &channel.actual);
        if matches!(joined, EngineResponse::Ready(Ok(_))) {
            return self.add_rename(session, channel);
        }
        let (this, session) = (Arc::clone(self), self.table.clone_handle(session));
        let creator = creator.clone();
        let joining = async move { this.retry_join(&session, &creator, channel, joined).await };
        self.executor.spawn(Box::pin(joining));
    }

    /// Waits for a subscription to a channel that the token names. Retries while the engine is overloaded,
    /// because many sessions may be opened at the same time.
    async fn retry_join(
        self: &Arc<Self>,
        session: &SessionCell,
        creator: &QuotaOwner,
        channel: Rename,
        mut joined: EngineResponse<Result<SubscribeOutcome, SubscribeError>>,
    ) {
        let mut pauses = RetryBackoff::new();
        while let Err(error) = joined.await {
            if error != SubscribeError::Engine(EngineError::Overloaded) {
                return log_failed_join(session, &channel.requested, &error);
            }
            self.timeouts.sleep(pauses.next_delay()).await;
            joined = self.join_by_token(session, creator, &channel.actual);
        }
        self.add_rename(session, channel);
    }

    fn join_by_token(
        self: &Arc<Self>,
        session: &SessionCell,
        creator: &QuotaOwner,
        name: &ChannelName,
    ) -> EngineResponse<Result<SubscribeOutcome, SubscribeError>> {
        self.subscribe_as(session, TOKEN_JOIN, || creator.clone(), name, &StartPosition::Now)
    }
}

fn log_failed_join(session: &SessionCell, name: &ChannelName, error: &dyn Display) {
    let session = session.id();
    tracing::info!(%session, channel = %name, %error, "channel named in the token not joined");
}
