//! Which channels a session follows.

use std::sync::Arc;

use encke_core::dialect::Since;
use encke_core::session::outbox::{Bounds, Slot};
use encke_core::session::{ConnectionInput, Input, Phase};

use super::cell::{SessionCell, SessionState};
use super::link::Link;
use super::store::{Sessions, deadline};
use crate::auth::{Identity, Permission};
use crate::channel::{Channel, ChannelName, Full, SubscriberKey};

/// What a session knows a channel by.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    pub(crate) channel: Arc<Channel>,
    /// What the channel knows the session by.
    pub(super) key: Option<SubscriberKey>,
}

/// A session follows a channel.
#[derive(Debug)]
pub(crate) struct Subscribed {
    pub(crate) channel: Arc<Channel>,
    /// The last message there was.
    pub(crate) offset: u64,
    /// If it was to begin after a certain message: whether everything after it is there still.
    pub(crate) recovered: Option<bool>,
}

/// Why a session does not follow a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotSubscribed {
    #[error("a session may follow {limit} channels (limits.max_subscriptions)")]
    TooMany { limit: usize },
    #[error(transparent)]
    Full(#[from] Full),
    #[error("the token does not allow to subscribe to this channel")]
    Forbidden,
    #[error("the session is not this connection's any more")]
    Detached,
}

impl Sessions {
    /// Makes a session follow a channel, from now on or from after `since` on. If it does already, nothing changes.
    ///
    /// Whether it may is looked at here, under the session's lock: since the connection asked, another may have taken the
    /// session over, with a token that allows less.
    pub(crate) fn subscribe(
        &self,
        session: &Arc<SessionCell>,
        link: &Link,
        name: &ChannelName,
        since: Option<&Since<'_>>,
    ) -> Result<Subscribed, NotSubscribed> {
        let mut state = session.state.lock();
        if state.machine.phase() != Phase::Attached(link.id) {
            return Err(NotSubscribed::Detached);
        }
        if !state.identity.allows(Permission::Subscribe, name.as_str()) {
            return Err(NotSubscribed::Forbidden);
        }
        if let Some((_, followed)) = state.find(name.as_str()) {
            let channel = Arc::clone(&followed.channel);
            return Ok(Subscribed { offset: channel.last_offset(), channel, recovered: None });
        }
        let limit = self.limits.subscriptions;
        if state.machine.outbox().subscriptions().count() >= limit {
            return Err(NotSubscribed::TooMany { limit });
        }
        let outbox = state.machine.outbox_mut();
        let join = |channel: &Arc<Channel>, log: Bounds, add: &mut dyn FnMut(Slot) -> SubscriberKey| {
            let start = Start::of(since, channel.epoch(), log);
            let followed = Followed { channel: Arc::clone(channel), key: None };
            let slot = outbox.subscribe(followed, start.cursor, start.gap);
            if let Some(followed) = outbox.channel_mut(slot) {
                followed.key = Some(add(slot));
            }
            Subscribed { channel: Arc::clone(channel), offset: log.last, recovered: start.recovered }
        };
        Ok(self.channels.subscribe(name, session, join)?)
    }

    /// The session gets nothing new from the channel. Nothing happens if it does not follow it, or has another connection.
    pub(crate) fn unsubscribe(&self, session: &Arc<SessionCell>, link: &Link, name: &str) {
        let mut state = session.state.lock();
        if state.machine.phase() != Phase::Attached(link.id) {
            return;
        }
        let Some((slot, followed)) = state.find(name) else { return };
        let followed = followed.clone();
        state.machine.outbox_mut().unsubscribe(slot);
        drop(state);
        self.release(&followed);
    }

    /// The client has a new token. Returns the channels that it does not allow it to follow any more, or nothing when the
    /// session is another user's.
    pub(crate) fn refresh(
        &self,
        session: &Arc<SessionCell>,
        link: &Link,
        identity: &Identity,
    ) -> Option<Vec<ChannelName>> {
        let is_theirs = self.step(session, |state, now| {
            let is_theirs = state.identity.is_same_user(identity);
            if is_theirs && state.machine.phase() == Phase::Attached(link.id) {
                state.identity = identity.clone();
                let expires = identity.expires().map(|expires| deadline(expires, now));
                let refreshed = ConnectionInput::TokenRefreshed(expires);
                state.machine.handle(now, Input::Connection(link.id, refreshed));
            }
            is_theirs
        });
        is_theirs.then(|| self.revoke(session))
    }

    /// Ends the subscriptions that the client's token does not allow.
    pub(super) fn revoke(&self, session: &Arc<SessionCell>) -> Vec<ChannelName> {
        let mut state = session.state.lock();
        let SessionState { machine, identity, .. } = &mut *state;
        let outbox = machine.outbox_mut();
        let forbidden: Vec<(Slot, Followed)> = outbox
            .subscriptions()
            .filter(|it| !identity.allows(Permission::Subscribe, it.channel.channel.name().as_str()))
            .map(|it| (it.slot, it.channel.clone()))
            .collect();
        for (slot, _) in &forbidden {
            outbox.unsubscribe(*slot);
        }
        drop(state);
        let revoked = forbidden.into_iter().map(|(_, followed)| {
            self.release(&followed);
            followed.channel.name().clone()
        });
        revoked.collect()
    }

    /// The session is over: it follows nothing any more.
    pub(super) fn release_all(&self, session: &SessionCell) {
        let followed = session.state.lock().machine.outbox_mut().clear();
        followed.for_each(|followed| self.release(&followed));
    }

    fn release(&self, followed: &Followed) {
        if let Some(key) = followed.key {
            self.channels.unsubscribe(&followed.channel, key);
        }
    }
}

impl SessionState {
    fn find(&self, name: &str) -> Option<(Slot, &Followed)> {
        let mut subscriptions = self.machine.outbox().subscriptions();
        let found =
            subscriptions.find(|subscription| subscription.channel.channel.name().as_str() == name)?;
        Some((found.slot, found.channel))
    }
}

/// Where a subscription begins to read.
#[derive(Debug, PartialEq, Eq)]
struct Start {
    /// After this message.
    cursor: u64,
    /// The client is to be told first that something is missing of which nobody knows how much.
    gap: bool,
    recovered: Option<bool>,
}

impl Start {
    fn of(since: Option<&Since<'_>>, epoch: &str, log: Bounds) -> Self {
        match since {
            None => Self { cursor: log.last, gap: false, recovered: None },
            // Another life of the log: what is in this one, the client has not seen.
            Some(since) if since.epoch != epoch => {
                Self { cursor: log.first - 1, gap: true, recovered: Some(false) }
            }
            Some(since) if since.offset > log.last => {
                Self { cursor: log.last, gap: true, recovered: Some(false) }
            }
            Some(since) => {
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
    fn where_a_subscription_begins() {
        let log = Bounds { first: 5, last: 9 };
        let since = |epoch: &'static str, offset| Some(Since { epoch: epoch.into(), offset });
        let table = [
            (None, (9, false, None)),
            (since("e", 9), (9, false, Some(true))),
            (since("e", 4), (4, false, Some(true))),
            (since("e", 3), (3, false, Some(false))),
            (since("e", 10), (9, true, Some(false))),
            (since("old", 7), (4, true, Some(false))),
        ];
        for (since, (cursor, gap, recovered)) in table {
            assert_eq!(Start::of(since.as_ref(), "e", log), Start { cursor, gap, recovered }, "{since:?}");
        }
    }
}
