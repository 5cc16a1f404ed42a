//! Which channels a session follows.

use std::sync::Arc;

use encke_core::dialect::{Beginning, Since};
use encke_core::session::Phase;
use encke_core::session::outbox::{Bounds, Slot, Source, WhyEnded};

use super::Channel;
use super::cell::{SessionCell, SessionRef, SessionState};
use super::sessions::Sessions;
use super::step::token_deadline;
use super::via::{Said, Via};
use crate::admission::Holder;
use crate::auth::{Identity, Permission};
use crate::channel::{ChannelName, Hold, Retired, SubscriberKey, overlap};
use crate::engine::{Answer, EngineError};

/// What a session knows of a channel that it follows.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    pub(crate) channel: Arc<Channel>,
    /// What the channel knows the session by.
    pub(super) key: SubscriberKey,
}

impl Source for Followed {
    fn log(&self) -> u64 {
        self.channel.number()
    }

    fn overlaps(&self, other: &Self) -> bool {
        overlap(self.channel.name().as_str(), other.channel.name().as_str())
    }
}

/// A session follows a channel.
#[derive(Debug)]
pub(crate) struct Subscribed {
    pub(crate) channel: Arc<Channel>,
    /// The newest message at that time.
    pub(crate) offset: u64,
    /// It begins after this message.
    pub(crate) begun: u64,
    /// If the client asked for what follows a certain message: whether all of that is still there.
    pub(crate) recovered: Option<bool>,
}

/// Why a session does not follow a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotSubscribed {
    #[error("subscription limit reached (limits.max_subscriptions = {limit})")]
    TooManySubscriptions { limit: usize },
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("the token does not allow to subscribe to this channel")]
    Forbidden,
    #[error("the server is going away, and the session goes on in the next one")]
    Draining,
    #[error("another connection has the session now")]
    Detached,
    #[error("the session has ended")]
    Ended,
}

/// By whose will a session follows a channel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Will {
    /// Its client has asked for it in this way, and is answered.
    Client(Via),
    /// Its client is told.
    Server {
        /// Whatever its client's token allows.
        granted: bool,
    },
}

impl Will {
    /// Whether the session's connection knows nothing of it.
    fn is_beside(self) -> bool {
        match self {
            Self::Client(via) => via.is_beside(),
            Self::Server { .. } => true,
        }
    }
}

impl Sessions {
    /// Makes a session follow a channel. If it does already, nothing changes.
    ///
    /// Three steps: the session is asked whether it may; the engine is asked for the channel, with no lock held; the session
    /// joins it. In between, another connection may have taken the session over with a token that allows less, so the
    /// last step asks the session again.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        session: &SessionCell,
        via: Via,
        name: &ChannelName,
        begin: &Beginning<'_>,
    ) -> Answer<Result<Subscribed, NotSubscribed>> {
        self.follow(session, Will::Client(via), || session.holder(via), name, begin)
    }

    /// The same by anyone's will. `maker` makes the channel, if there is none.
    pub(super) fn follow(
        self: &Arc<Self>,
        session: &SessionCell,
        will: Will,
        maker: impl FnOnce() -> Holder,
        name: &ChannelName,
        begin: &Beginning<'_>,
    ) -> Answer<Result<Subscribed, NotSubscribed>> {
        match self.step(session, |state, _| self.may_follow(state, will, name)) {
            Ok(None) => {}
            Ok(Some(subscribed)) => return Answer::Ready(Ok(subscribed)),
            Err(error) => return Answer::Ready(Err(error)),
        }
        match self.logs.engine.follow(name, &maker()) {
            Answer::Ready(followed) => Answer::Ready(
                followed.map_err(NotSubscribed::from).and_then(|hold| self.join(session, will, &hold, begin)),
            ),
            Answer::Later(followed) => {
                let (sessions, session) = (Arc::clone(self), self.hold(session));
                let begin = begin.clone().into_owned();
                Answer::Later(Box::pin(
                    async move { sessions.join(&session, will, &followed.await?, &begin) },
                ))
            }
        }
    }

    /// The session joins a channel, if it still may.
    fn join(
        &self,
        session: &SessionCell,
        will: Will,
        hold: &Hold<SessionRef>,
        begin: &Beginning<'_>,
    ) -> Result<Subscribed, NotSubscribed> {
        let channel = hold.channel();
        let subscribed = self.step(session, |state, _| {
            if let Some(subscribed) = self.may_follow(state, will, channel.name())? {
                return Ok(subscribed);
            }
            let joined = channel.join(session.reference(), |log, add| {
                let goes_on = |since: &Since<'_>| channel.goes_on_after(&since.epoch, since.offset);
                let start = Start::of(begin, goes_on, log);
                let subscribe = |slot| Followed { channel: Arc::clone(channel), key: add(slot) };
                let outbox = state.machine.outbox_mut();
                outbox.forget_ends(|ended| ended.channel.name() == channel.name());
                match will {
                    Will::Client(_) => outbox.subscribe_with(subscribe, start.cursor, start.gap),
                    Will::Server { granted } => {
                        outbox.subscribe_and_tell(subscribe, start.cursor, start.gap, granted)
                    }
                };
                let Start { cursor: begun, recovered, .. } = start;
                Subscribed { channel: Arc::clone(channel), offset: log.last, begun, recovered }
            });
            let joined = joined.map_err(|Retired| NotSubscribed::Engine(EngineError::Unavailable))?;
            self.note_joined(session, &state.identity, channel);
            Ok(joined)
        });
        self.tell(channel.name());
        if will.is_beside() && subscribed.is_ok() {
            session.wake_to_read();
        }
        subscribed
    }

    /// Whether a session may follow one more channel for this client; the subscription, if it is there already. That is granted from here on, if it is the
    /// backend that wants it.
    fn may_follow(
        &self,
        state: &mut SessionState,
        will: Will,
        name: &ChannelName,
    ) -> Result<Option<Subscribed>, NotSubscribed> {
        match (will, state.machine.phase()) {
            (_, Phase::Moved) => return Err(NotSubscribed::Draining),
            (Will::Client(via), _) if !via.is_heard(state) => return Err(NotSubscribed::Detached),
            (Will::Server { .. }, Phase::Closed(_)) => return Err(NotSubscribed::Ended),
            _ => {}
        }
        let is_granted = matches!(will, Will::Server { granted: true });
        if !is_granted && !state.identity.allows(Permission::Subscribe, name.as_str()) {
            return Err(NotSubscribed::Forbidden);
        }
        if let Some((slot, followed)) = state.find(name.as_str()) {
            let channel = Arc::clone(&followed.channel);
            if is_granted {
                state.machine.outbox_mut().grant(slot);
            }
            let offset = channel.last_offset();
            return Ok(Some(Subscribed { channel, offset, begun: offset, recovered: None }));
        }
        let limit = self.limits.subscriptions;
        let theirs =
            state.machine.outbox().subscriptions().filter(|it| !it.channel.channel.name().is_direct());
        if theirs.count() >= limit {
            return Err(NotSubscribed::TooManySubscriptions { limit });
        }
        Ok(None)
    }

    /// Whether the session follows a channel.
    pub(crate) fn follows(&self, session: &SessionCell, name: &str) -> bool {
        session.lock().find(name).is_some()
    }

    /// The session gets nothing new from the channel. Nothing happens if it does not follow it, or no longer listens.
    pub(crate) fn unsubscribe(&self, session: &SessionCell, via: Via, name: &str) {
        let followed = self.step(session, |state, _| {
            let found = via.is_heard(state).then(|| state.find(name))?;
            // What the server says, no client can keep it from saying.
            let (slot, followed) = found.filter(|(_, followed)| !followed.channel.name().is_direct())?;
            let followed = followed.clone();
            state.machine.outbox_mut().unsubscribe(slot);
            self.note_left(session, &state.identity, &followed.channel);
            Some(followed)
        });
        if let Some(followed) = followed {
            self.release(&followed);
        }
    }

    /// The client has a new token. Returns the channels that it no longer allows, or nothing when the session is another
    /// user's.
    pub(crate) fn refresh(
        self: &Arc<Self>,
        session: &SessionCell,
        via: Via,
        identity: &Identity,
    ) -> Option<Vec<ChannelName>> {
        let mut before = None;
        let is_theirs = self.step(session, |state, step| {
            let is_theirs = state.identity.is_same_user(identity);
            if is_theirs && via.is_heard(state) {
                before = Some(std::mem::replace(&mut state.identity, identity.clone()));
                let expires = identity
                    .expires()
                    .map(|expires| token_deadline(expires, self.timeouts.clock(), step.now));
                state.machine.handle(step, via.input(Said::TokenRefreshed(expires)));
            }
            is_theirs
        });
        let revoked = is_theirs.then(|| self.revoke(session));
        if let Some(before) = before {
            self.join_by_token(session, identity, &before);
        }
        revoked
    }

    /// Ends the subscriptions that the client's token does not allow.
    pub(super) fn revoke(&self, session: &SessionCell) -> Vec<ChannelName> {
        let forbidden = self.step(session, |state, _| {
            let SessionState { machine, identity, .. } = state;
            let outbox = machine.outbox_mut();
            let forbidden: Vec<(Slot, Followed)> = outbox
                .subscriptions()
                .filter(|it| {
                    let name = it.channel.channel.name();
                    !it.granted && !name.is_direct() && !identity.allows(Permission::Subscribe, name.as_str())
                })
                .map(|it| (it.slot, it.channel.clone()))
                .collect();
            for (slot, followed) in &forbidden {
                // Whoever asked tells the client.
                outbox.unsubscribe_told(*slot, WhyEnded::Forbidden);
                self.note_left(session, identity, &followed.channel);
            }
            forbidden
        });
        let revoked = forbidden.into_iter().map(|(_, followed)| {
            self.release(&followed);
            followed.channel.name().clone()
        });
        revoked.collect()
    }

    /// The session no longer follows the channel.
    pub(super) fn release(&self, followed: &Followed) {
        self.logs.channels.unsubscribe(&followed.channel, followed.key);
        self.tell(followed.channel.name());
    }
}

impl SessionCell {
    /// Another log goes on in the place of one that it follows. See [`Subscriber::move_on`](crate::channel::Subscriber::move_on).
    pub(super) fn move_on(&self, from: &Arc<Channel>, to: &Arc<Channel>, cut: Option<u64>) {
        let left = {
            let mut state = self.lock();
            let outbox = state.machine.outbox_mut();
            let found = outbox.subscriptions().find(|it| Arc::ptr_eq(&it.channel.channel, from));
            let Some((slot, key)) = found.map(|it| (it.slot, it.channel.key)) else { return };
            let moved = to.join(self.reference(), |log, add| {
                let follow = |slot| Followed { channel: Arc::clone(to), key: add(slot) };
                outbox.move_on(slot, follow, cut, log);
            });
            moved.is_ok().then_some(key)
        };
        if let Some(key) = left {
            from.remove_subscriber(key);
            self.wake_to_read();
        }
    }
}

impl SessionState {
    pub(super) fn find(&self, name: &str) -> Option<(Slot, &Followed)> {
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
    /// The client is first told that an unknown number of messages is missing.
    gap: bool,
    recovered: Option<bool>,
}

impl Start {
    /// `goes_on` is whether what comes after that message is in the log, or was.
    fn of(begin: &Beginning<'_>, goes_on: impl FnOnce(&Since<'_>) -> bool, log: Bounds) -> Self {
        match begin {
            Beginning::Now => Self { cursor: log.last, gap: false, recovered: None },
            Beginning::Newest(count) => {
                let cursor = log.last.saturating_sub(*count).max(log.first - 1);
                Self { cursor, gap: false, recovered: None }
            }
            // Another life of the log: the client has seen nothing of this one.
            Beginning::After(since) if !goes_on(since) => {
                Self { cursor: log.first - 1, gap: true, recovered: Some(false) }
            }
            Beginning::After(since) if since.offset > log.last => {
                Self { cursor: log.last, gap: true, recovered: Some(false) }
            }
            Beginning::After(since) => {
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
        use Beginning::{Newest, Now};
        let after = |epoch: &'static str, offset| Beginning::After(Since { epoch: epoch.into(), offset });
        let (log, empty) = (Bounds { first: 5, last: 9 }, Bounds { first: 10, last: 9 });
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
            (Newest(3), Bounds { first: 1, last: 0 }, (0, false, None)),
        ];
        for (begin, log, (cursor, gap, recovered)) in table {
            let start = Start::of(&begin, |since| since.epoch == "e", log);
            assert_eq!(start, Start { cursor, gap, recovered }, "{begin:?}");
        }
    }
}
