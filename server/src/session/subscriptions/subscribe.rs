use std::sync::{Arc, OnceLock, Weak};

use encke_base::executor::Executor;
use encke_base::metrics::Metrics;
use encke_base::quota::QuotaOwner;
use encke_broker::channel::{ChannelGuard, ChannelName, Retired};
use encke_broker::engine::{EngineError, EngineResponse};
use encke_core::dialect::{Since, StartPosition};
use encke_core::session::outbox::{EndReason, SubscriptionSlot};
use encke_core::session::{Outbox, Phase};
use encke_timeouts::Timeouts;

use super::command_source::CommandSource;
use super::join_authoriser::JoinAuthoriser;
use super::join_leave::JoinLeave;
use super::subscribe_outcome::{SubscribeError, SubscribeOutcome};
use super::subscriber::deliver_pending;
use super::subscription_start::SubscriptionStart;
use crate::auth::{Identity, Permission};
use crate::session::channels::{SessionLogs, SessionOutbox, SubscribedChannel};
use crate::session::session_ref::SessionRef;
use crate::session::table::{Rename, SessionCell, SessionState, SessionTable};

/// Limits on sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionLimits {
    /// Maximum number of messages that each session keeps as sent but not acknowledged.
    pub(crate) unacked: usize,
    /// Maximum number of subscriptions of each session.
    pub(crate) subscriptions: usize,
    /// Maximum number of joins that are announced per minute, channel and owner of sessions; 0: no limit.
    pub(crate) joins_per_minute: u32,
}

/// Begins and ends subscriptions of sessions to channels.
///
/// A subscription affects neither the phase nor the deadlines of a session, so changing it requires no step.
pub(crate) struct Subscriptions {
    pub(super) table: Arc<SessionTable>,
    pub(super) logs: SessionLogs,
    join_leave: JoinLeave,
    pub(super) limits: SessionLimits,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) metrics: Arc<Metrics>,
    /// Runs background tasks that wait for an engine or the backend.
    pub(super) executor: Arc<dyn Executor>,
    /// Set if the backend decides about the channels that tokens join.
    join_authoriser: OnceLock<Weak<dyn JoinAuthoriser>>,
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

impl Subscriptions {
    pub(crate) fn new(
        logs: SessionLogs,
        limits: SessionLimits,
        timeouts: Arc<Timeouts>,
        metrics: Arc<Metrics>,
        executor: Arc<dyn Executor>,
    ) -> Arc<Self> {
        let table = Arc::clone(logs.channels.registry());
        let (clock, tasks) = (Arc::clone(&timeouts), Arc::clone(&executor));
        let join_leave =
            JoinLeave::new(limits.joins_per_minute, logs.clone(), clock, Arc::clone(&metrics), tasks);
        let join_authoriser = OnceLock::new();
        Arc::new(Self { table, logs, join_leave, limits, timeouts, metrics, executor, join_authoriser })
    }

    /// Lets `authoriser` decide about the channels that tokens join.
    pub(crate) fn set_join_authoriser(&self, authoriser: Weak<dyn JoinAuthoriser>) {
        _ = self.join_authoriser.set(authoriser);
    }

    /// Returns the authoriser of the channels that tokens join. `None` if the token alone decides.
    pub(super) fn join_authoriser(&self) -> Option<Weak<dyn JoinAuthoriser>> {
        self.join_authoriser.get().cloned()
    }

    /// Creates the outbox of a session without subscriptions.
    pub(crate) fn new_outbox(&self) -> SessionOutbox {
        Outbox::new(self.limits.unacked)
    }

    /// Returns the publisher of joins and leaves.
    pub(crate) fn join_leave(&self) -> &JoinLeave {
        &self.join_leave
    }

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
        match self.table.change(session, |state| self.check_subscribe(state, origin, name)) {
            Some(Ok(None)) => {}
            Some(Ok(Some(subscribed))) => return EngineResponse::Ready(Ok(subscribed)),
            Some(Err(error)) => return EngineResponse::Ready(Err(error)),
            None => return EngineResponse::Ready(Err(SubscribeError::Ended)),
        }
        let guard = match begin {
            StartPosition::After(since) => self.logs.engine.subscribe_after(name, &creator(), since),
            _ => self.logs.engine.subscribe(name, &creator()),
        };
        match guard {
            EngineResponse::Ready(guard) => EngineResponse::Ready(
                guard
                    .map_err(SubscribeError::from)
                    .and_then(|guard| self.join(session, origin, &guard, begin)),
            ),
            EngineResponse::Pending(guard) => {
                let (sessions, session) = (Arc::clone(self), self.table.clone_handle(session));
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
        let subscribed = self.table.change(session, |state| {
            if let Some(subscribed) = self.check_subscribe(state, origin, channel.name())? {
                return Ok(subscribed);
            }
            let joined = channel.join(session.reference(), |log, add| {
                let continues = |since: &Since<'_>| channel.continues_from(&since.epoch, since.offset);
                let start = SubscriptionStart::of(begin, continues, log);
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
                SubscribeOutcome {
                    channel: Arc::clone(channel),
                    is_new: true,
                    offset: log.last,
                    start_offset,
                    recovered,
                }
            });
            let joined = joined.map_err(|Retired| SubscribeError::Engine(EngineError::Unavailable))?;
            let address = match origin {
                SubscriptionOrigin::Client(source) => Some(source.address()),
                SubscriptionOrigin::Server { .. } => state.address(),
            };
            self.join_leave.enqueue_join(session, state, address, channel.name());
            state.note_change(session.reference());
            Ok(joined)
        });
        let subscribed = subscribed.unwrap_or(Err(SubscribeError::Ended));
        self.join_leave.publish(channel.name());
        if origin.is_out_of_band() && subscribed.is_ok() {
            deliver_pending(&self.table, session);
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
            return Ok(Some(SubscribeOutcome {
                channel,
                is_new: false,
                offset,
                start_offset: offset,
                recovered: None,
            }));
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

    /// Returns the channel that the session is subscribed to under this name: the channel itself, or the one
    /// that the backend named instead.
    pub(crate) fn subscribed_channel(&self, session: &SessionCell, name: &str) -> Option<ChannelName> {
        let state = session.lock();
        let (_, subscription) = state.find_by_either_name(name)?;
        Some(subscription.channel.name().clone())
    }

    /// Records that the session has been subscribed to another channel than the requested one, so that the
    /// client can use either name to unsubscribe. Has no effect if the subscription has ended in the meantime.
    pub(crate) fn add_rename(&self, session: &SessionCell, rename: Rename) {
        if rename.requested != rename.actual {
            self.table.change(session, |state| {
                state.add_rename(rename, self.limits.subscriptions);
                state.note_change(session.reference());
            });
        }
    }

    /// Unsubscribes a session from a channel, named either by its own name or by the name that was requested.
    /// Has no effect if the session is not subscribed, or no longer accepts input from this source.
    pub(crate) fn unsubscribe(&self, session: &SessionCell, source: CommandSource, name: &str) {
        let subscription = self.table.change(session, |state| {
            let found = source.is_current(state).then(|| state.find_by_either_name(name))?;
            // Clients cannot unsubscribe from direct messages.
            let (slot, subscription) =
                found.filter(|(_, subscription)| !subscription.channel.name().is_direct())?;
            let subscription = subscription.clone();
            state.machine.outbox_mut().unsubscribe(slot);
            state.forget_renames(subscription.channel.name());
            self.join_leave.enqueue_leave(session, &state.identity, &subscription);
            state.note_change(session.reference());
            Some(subscription)
        });
        if let Some(subscription) = subscription.flatten() {
            self.complete_unsubscribe(&subscription);
        }
    }

    /// Ends the subscriptions that the client's token does not allow.
    pub(crate) fn revoke_forbidden(&self, session: &SessionCell) -> Vec<ChannelName> {
        let forbidden = self.table.change(session, |state| {
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
                self.join_leave.enqueue_leave(session, identity, subscription);
            }
            for (_, subscription) in &forbidden {
                state.forget_renames(subscription.channel.name());
            }
            if !forbidden.is_empty() {
                state.note_change(session.reference());
            }
            forbidden
        });
        let revoked = forbidden.into_iter().flatten().map(|(_, subscription)| {
            self.complete_unsubscribe(&subscription);
            subscription.channel.name().clone()
        });
        revoked.collect()
    }

    /// Clears all subscriptions of a session that has ended. The caller holds the session's lock, and
    /// [completes](Self::complete_unsubscribe) each unsubscribe after releasing it.
    pub(crate) fn clear(
        &self,
        session: &SessionCell,
        identity: &Identity,
        outbox: &mut SessionOutbox,
    ) -> Box<[SubscribedChannel]> {
        let subscriptions: Box<[_]> = outbox.clear().collect();
        for subscription in &subscriptions {
            self.join_leave.enqueue_leave(session, identity, subscription);
        }
        subscriptions
    }

    /// Completes an unsubscribe. The caller does not hold the session's lock.
    pub(crate) fn complete_unsubscribe(&self, subscription: &SubscribedChannel) {
        self.logs.channels.unsubscribe(&subscription.channel, subscription.key);
        self.join_leave.publish(subscription.channel.name());
    }
}
