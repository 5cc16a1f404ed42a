//! Subscriptions that begin or end without a request from the client: either the backend calls the API, or
//! the token names the channel. The outbox notifies the client.

use std::sync::Arc;

use encke_base::quota::QuotaOwner;
use encke_broker::channel::ChannelName;
use encke_broker::engine::{EngineError, EngineResponse, RetryBackoff};
use encke_core::dialect::StartPosition;
use encke_core::session::Phase;

use super::subscribe::{SubscriptionOrigin, Subscriptions};
use super::subscribe_outcome::{SubscribeError, SubscribeOutcome};
use super::subscriber::deliver_pending;
use crate::auth::Identity;
use crate::session::table::SessionCell;

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

    /// Unsubscribes a session on behalf of the backend, from a channel named as for [`Self::unsubscribe`]. Has no
    /// effect if the session is not subscribed.
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
                self.join_leave().enqueue_leave(session, &state.identity, &subscription.channel);
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

    /// Subscribes a session to the channels that its new token names and the previous token did not name. The
    /// client receives a notice of each new subscription.
    pub(crate) fn join_token_channels(
        self: &Arc<Self>,
        session: &SessionCell,
        identity: &Identity,
        before: &Identity,
    ) {
        let new = identity.joins().filter(|name| !before.joins().any(|known| known == *name));
        for name in new.filter_map(|name| ChannelName::new(name, usize::MAX).ok()) {
            let user = identity.shared_user();
            let creator = move || user.clone().map_or(QuotaOwner::Operator, QuotaOwner::User);
            let joined = self.subscribe_as(session, TOKEN_JOIN, &creator, &name, &StartPosition::Now);
            if !matches!(joined, EngineResponse::Ready(Ok(_))) {
                let (this, session) = (Arc::clone(self), self.table.clone_handle(session));
                let joining = async move { this.retry_join(&session, creator, &name, joined).await };
                self.executor.spawn(Box::pin(joining));
            }
        }
    }

    /// Waits for a subscription to a channel that the token names. Retries while the engine is overloaded,
    /// because many sessions may be opened at the same time.
    async fn retry_join(
        self: &Arc<Self>,
        session: &SessionCell,
        creator: impl Fn() -> QuotaOwner,
        name: &ChannelName,
        mut joined: EngineResponse<Result<SubscribeOutcome, SubscribeError>>,
    ) {
        let mut pauses = RetryBackoff::new();
        while let Err(error) = joined.await {
            if error != SubscribeError::Engine(EngineError::Overloaded) {
                let session = session.id();
                tracing::info!(%session, channel = %name, %error, "channel named in the token not joined");
                return;
            }
            self.timeouts.sleep(pauses.next_delay()).await;
            joined = self.subscribe_as(session, TOKEN_JOIN, &creator, name, &StartPosition::Now);
        }
    }
}
