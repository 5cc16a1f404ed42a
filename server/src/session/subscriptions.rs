//! Subscriptions of a session.

use std::sync::Arc;
use std::task::Waker;

use encke_core::dialect::{Since, StartPosition};
use encke_core::session::Phase;
use encke_core::session::outbox::{EndReason, LogBounds, LogHandle, SubscriptionSlot};

use super::Channel;
use super::cell::{SessionCell, SessionLookup, SessionRef, SessionState};
use super::command_source::{ClientInput, CommandSource};
use super::sessions::Sessions;
use super::step::token_deadline;
use crate::admission::QuotaOwner;
use crate::auth::{Identity, Permission};
use crate::channel::{ChannelGuard, ChannelName, Retired, SubscriberKey, overlap};
use crate::engine::{EngineError, EngineResponse};

/// A channel that a session is subscribed to.
#[derive(Clone, Debug)]
pub(crate) struct SubscribedChannel {
    pub(crate) channel: Arc<Channel>,
    /// Key of the session among the channel's subscribers.
    pub(super) key: SubscriberKey,
}

impl LogHandle for SubscribedChannel {
    fn log(&self) -> u64 {
        self.channel.number()
    }

    fn overlaps(&self, other: &Self) -> bool {
        overlap(self.channel.name().as_str(), other.channel.name().as_str())
    }
}

/// Result of a successful subscribe request.
#[derive(Debug)]
pub(crate) struct SubscribeOutcome {
    pub(crate) channel: Arc<Channel>,
    /// Offset of the newest message in the log when the subscription began.
    pub(crate) offset: u64,
    /// Offset of the message before the first one to be sent.
    pub(crate) start_offset: u64,
    /// Whether all messages after the one that the client named are still available. `None` if the client
    /// named no message.
    pub(crate) recovered: Option<bool>,
}

/// Why a subscribe request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SubscribeError {
    #[error("subscription limit reached (limits.max_subscriptions = {limit})")]
    TooManySubscriptions { limit: usize },
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("the token does not allow subscribing to this channel")]
    Forbidden,
    #[error("the server is shutting down; the session continues in the next process")]
    Draining,
    #[error("another connection has taken over the session")]
    Detached,
    #[error("the session has ended")]
    Ended,
}

/// Origin of a subscription.
#[derive(Clone, Copy, Debug)]
pub(super) enum SubscriptionOrigin {
    /// The client, which receives a reply.
    Client(CommandSource),
    /// The server. The client receives a notice.
    Server {
        /// Whether the backend granted the subscription, regardless of the client's token.
        granted: bool,
    },
}

impl SubscriptionOrigin {
    /// Whether the session's connection has to be notified of the change.
    fn is_out_of_band(self) -> bool {
        match self {
            Self::Client(source) => source.is_out_of_band(),
            Self::Server { .. } => true,
        }
    }
}

impl Sessions {
    /// Subscribes a session to a channel. Has no effect if the session is already subscribed.
    ///
    /// There are three steps: check that the session may subscribe; request the channel from the engine,
    /// without holding a lock; join the channel. Between these steps, another connection may have taken over
    /// the session with a token that allows less, so the last step repeats the check.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        session: &SessionCell,
        source: CommandSource,
        name: &ChannelName,
        begin: &StartPosition<'_>,
    ) -> EngineResponse<Result<SubscribeOutcome, SubscribeError>> {
        self.subscribe_as(
            session,
            SubscriptionOrigin::Client(source),
            || session.quota_owner(source),
            name,
            begin,
        )
    }

    /// Subscribes a session, regardless of the origin. `creator` returns the quota owner of the channel if
    /// the channel has to be created.
    pub(super) fn subscribe_as(
        self: &Arc<Self>,
        session: &SessionCell,
        origin: SubscriptionOrigin,
        creator: impl FnOnce() -> QuotaOwner,
        name: &ChannelName,
        begin: &StartPosition<'_>,
    ) -> EngineResponse<Result<SubscribeOutcome, SubscribeError>> {
        match self.step(session, |state, _| self.check_subscribe(state, origin, name)) {
            Some(Ok(None)) => {}
            Some(Ok(Some(subscribed))) => return EngineResponse::Ready(Ok(subscribed)),
            Some(Err(error)) => return EngineResponse::Ready(Err(error)),
            None => return EngineResponse::Ready(Err(SubscribeError::Ended)),
        }
        match self.logs.engine.subscribe(name, &creator()) {
            EngineResponse::Ready(guard) => EngineResponse::Ready(
                guard
                    .map_err(SubscribeError::from)
                    .and_then(|guard| self.join(session, origin, &guard, begin)),
            ),
            EngineResponse::Pending(guard) => {
                let (sessions, session) = (Arc::clone(self), self.clone_handle(session));
                let begin = begin.clone().into_owned();
                EngineResponse::Pending(Box::pin(async move {
                    sessions.join(&session, origin, &guard.await?, &begin)
                }))
            }
        }
    }

    /// Joins a channel, after repeating the check.
    fn join(
        &self,
        session: &SessionCell,
        origin: SubscriptionOrigin,
        guard: &ChannelGuard<SessionRef>,
        begin: &StartPosition<'_>,
    ) -> Result<SubscribeOutcome, SubscribeError> {
        let channel = guard.channel();
        let subscribed = self.step(session, |state, _| {
            if let Some(subscribed) = self.check_subscribe(state, origin, channel.name())? {
                return Ok(subscribed);
            }
            let joined = channel.join(session.reference(), |log, add| {
                let goes_on = |since: &Since<'_>| channel.continues_from(&since.epoch, since.offset);
                let start = SubscriptionStart::of(begin, goes_on, log);
                let subscribe = |slot| SubscribedChannel { channel: Arc::clone(channel), key: add(slot) };
                let outbox = state.machine.outbox_mut();
                outbox.remove_end_notices(|ended| ended.channel.name() == channel.name());
                match origin {
                    SubscriptionOrigin::Client(_) => {
                        outbox.subscribe_with(subscribe, start.cursor, start.gap)
                    }
                    SubscriptionOrigin::Server { granted } => {
                        outbox.subscribe_with_notice(subscribe, start.cursor, start.gap, granted)
                    }
                };
                let SubscriptionStart { cursor: start_offset, recovered, .. } = start;
                SubscribeOutcome { channel: Arc::clone(channel), offset: log.last, start_offset, recovered }
            });
            let joined = joined.map_err(|Retired| SubscribeError::Engine(EngineError::Unavailable))?;
            self.enqueue_join(session, &state.identity, channel);
            Ok(joined)
        });
        let subscribed = subscribed.unwrap_or(Err(SubscribeError::Ended));
        self.publish_notices(channel.name());
        if origin.is_out_of_band() && subscribed.is_ok() {
            self.deliver_pending(session);
        }
        subscribed
    }

    /// Checks whether a session may have one more subscription. Returns the subscription if it already
    /// exists; if the backend requested it, it is marked as granted.
    fn check_subscribe(
        &self,
        state: &mut SessionState,
        origin: SubscriptionOrigin,
        name: &ChannelName,
    ) -> Result<Option<SubscribeOutcome>, SubscribeError> {
        match (origin, state.machine.phase()) {
            (_, Phase::Moved) => return Err(SubscribeError::Draining),
            (SubscriptionOrigin::Client(source), _) if !source.is_current(state) => {
                return Err(SubscribeError::Detached);
            }
            (SubscriptionOrigin::Server { .. }, Phase::Closed(_)) => return Err(SubscribeError::Ended),
            _ => {}
        }
        let is_granted = matches!(origin, SubscriptionOrigin::Server { granted: true });
        if !is_granted && !state.identity.allows(Permission::Subscribe, name.as_str()) {
            return Err(SubscribeError::Forbidden);
        }
        if let Some((slot, subscription)) = state.find(name.as_str()) {
            let channel = Arc::clone(&subscription.channel);
            if is_granted {
                state.machine.outbox_mut().grant(slot);
            }
            let offset = channel.last_offset();
            return Ok(Some(SubscribeOutcome { channel, offset, start_offset: offset, recovered: None }));
        }
        let limit = self.limits.subscriptions;
        let own = state.machine.outbox().subscriptions().filter(|it| !it.channel.channel.name().is_direct());
        if own.count() >= limit {
            return Err(SubscribeError::TooManySubscriptions { limit });
        }
        Ok(None)
    }

    /// Whether the session is subscribed to a channel.
    pub(crate) fn is_subscribed(&self, session: &SessionCell, name: &str) -> bool {
        session.lock().find(name).is_some()
    }

    /// Unsubscribes a session. Has no effect if the session is not subscribed, or no longer accepts input
    /// from this source.
    pub(crate) fn unsubscribe(&self, session: &SessionCell, source: CommandSource, name: &str) {
        let subscription = self.step(session, |state, _| {
            let found = source.is_current(state).then(|| state.find(name))?;
            // Clients cannot unsubscribe from direct messages.
            let (slot, subscription) =
                found.filter(|(_, subscription)| !subscription.channel.name().is_direct())?;
            let subscription = subscription.clone();
            state.machine.outbox_mut().unsubscribe(slot);
            self.enqueue_leave(session, &state.identity, &subscription.channel);
            Some(subscription)
        });
        if let Some(subscription) = subscription.flatten() {
            self.complete_unsubscribe(&subscription);
        }
    }

    /// Applies a client's new token. Returns the channels that were unsubscribed because the token no longer
    /// allows them, or `None` if the token belongs to another user.
    pub(crate) fn refresh(
        self: &Arc<Self>,
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
        let revoked = is_theirs.unwrap_or(true).then(|| self.revoke_forbidden(session));
        if let Some(before) = before {
            self.join_token_channels(session, identity, &before);
        }
        revoked
    }

    /// Ends the subscriptions that the client's token does not allow.
    pub(super) fn revoke_forbidden(&self, session: &SessionCell) -> Vec<ChannelName> {
        let forbidden = self.step(session, |state, _| {
            let SessionState { machine, identity, .. } = state;
            let outbox = machine.outbox_mut();
            let forbidden: Vec<(SubscriptionSlot, SubscribedChannel)> = outbox
                .subscriptions()
                .filter(|it| {
                    let name = it.channel.channel.name();
                    !it.granted && !name.is_direct() && !identity.allows(Permission::Subscribe, name.as_str())
                })
                .map(|it| (it.slot, it.channel.clone()))
                .collect();
            for (slot, subscription) in &forbidden {
                // The caller notifies the client.
                outbox.unsubscribe_already_notified(*slot, EndReason::Forbidden);
                self.enqueue_leave(session, identity, &subscription.channel);
            }
            forbidden
        });
        let revoked = forbidden.into_iter().flatten().map(|(_, subscription)| {
            self.complete_unsubscribe(&subscription);
            subscription.channel.name().clone()
        });
        revoked.collect()
    }

    /// Completes an unsubscribe. The caller does not hold the session's lock.
    pub(super) fn complete_unsubscribe(&self, subscription: &SubscribedChannel) {
        self.logs.channels.unsubscribe(&subscription.channel, subscription.key);
        self.publish_notices(subscription.channel.name());
    }
}

impl SessionCell {
    /// Moves a subscription to the log that replaces an earlier one. See
    /// [`Subscriber::move_to`](crate::channel::Subscriber::move_to).
    pub(super) fn move_on(
        &self,
        lookup: &SessionLookup,
        from: &Arc<Channel>,
        to: &Arc<Channel>,
        cut: Option<u64>,
    ) {
        let switch = |state: &mut SessionState| {
            let outbox = state.machine.outbox_mut();
            let found = outbox.subscriptions().find(|it| Arc::ptr_eq(&it.channel.channel, from));
            let (slot, key) = found.map(|it| (it.slot, it.channel.key))?;
            let moved = to.join(self.reference(), |log, add| {
                let subscribe = |slot| SubscribedChannel { channel: Arc::clone(to), key: add(slot) };
                outbox.switch_log(slot, subscribe, cut, log);
            });
            moved.is_ok().then_some(key)
        };
        let removed = self.change(switch, |state| lookup.end_half_changed(self, state));
        if let Some(key) = removed.flatten() {
            from.remove_subscriber(key);
            self.deliver(lookup, |_| {}).into_iter().for_each(Waker::wake);
        }
    }
}

impl SessionState {
    pub(super) fn find(&self, name: &str) -> Option<(SubscriptionSlot, &SubscribedChannel)> {
        let mut subscriptions = self.machine.outbox().subscriptions();
        let found =
            subscriptions.find(|subscription| subscription.channel.channel.name().as_str() == name)?;
        Some((found.slot, found.channel))
    }
}

/// Position at which a subscription begins.
#[derive(Debug, PartialEq, Eq)]
struct SubscriptionStart {
    /// Offset of the message before the first one to be sent.
    cursor: u64,
    /// Whether a gap of unknown length is sent first.
    gap: bool,
    recovered: Option<bool>,
}

impl SubscriptionStart {
    /// Determines the start. `goes_on` returns whether messages after the given one are, or were, in this
    /// log.
    fn of(begin: &StartPosition<'_>, goes_on: impl FnOnce(&Since<'_>) -> bool, log: LogBounds) -> Self {
        match begin {
            StartPosition::Now => Self { cursor: log.last, gap: false, recovered: None },
            StartPosition::Newest(count) => {
                let cursor = log.last.saturating_sub(*count).max(log.first - 1);
                Self { cursor, gap: false, recovered: None }
            }
            // The log's epoch has changed, so the client has no message of the new epoch.
            StartPosition::After(since) if !goes_on(since) => {
                Self { cursor: log.first - 1, gap: true, recovered: Some(false) }
            }
            StartPosition::After(since) if since.offset > log.last => {
                Self { cursor: log.last, gap: true, recovered: Some(false) }
            }
            StartPosition::After(since) => {
                let all_there = since.offset + 1 >= log.first;
                Self { cursor: since.offset, gap: false, recovered: Some(all_there) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscription_start_positions() {
        use StartPosition::{Newest, Now};
        let after = |epoch: &'static str, offset| StartPosition::After(Since { epoch: epoch.into(), offset });
        let (log, empty) = (LogBounds { first: 5, last: 9 }, LogBounds { first: 10, last: 9 });
        let table = [
            (Now, log, (9, false, None)),
            (after("e", 9), log, (9, false, Some(true))),
            (after("e", 4), log, (4, false, Some(true))),
            (after("e", 3), log, (3, false, Some(false))),
            (after("e", 10), log, (9, true, Some(false))),
            (after("old", 7), log, (4, true, Some(false))),
            (Newest(0), log, (9, false, None)),
            (Newest(1), log, (8, false, None)),
            (Newest(5), log, (4, false, None)),
            (Newest(6), log, (4, false, None)),
            (Newest(u64::MAX), log, (4, false, None)),
            (Newest(0), empty, (9, false, None)),
            (Newest(3), empty, (9, false, None)),
            (Newest(3), LogBounds { first: 1, last: 0 }, (0, false, None)),
        ];
        for (begin, log, (cursor, gap, recovered)) in table {
            let start = SubscriptionStart::of(&begin, |since| since.epoch == "e", log);
            assert_eq!(start, SubscriptionStart { cursor, gap, recovered }, "{begin:?}");
        }
    }
}
