//! Channels that a session follows, or leaves, without its client's asking: the backend says so, or its token does. The client is told, by
//! the outbox.

use std::sync::Arc;

use encke_core::dialect::Beginning;
use encke_core::session::Phase;

use super::cell::SessionCell;
use super::sessions::Sessions;
use super::subscriptions::{NotSubscribed, Subscribed, Will};
use crate::admission::Holder;
use crate::auth::Identity;
use crate::channel::ChannelName;
use crate::engine::{Answer, EngineError, Pauses};

/// The token has to allow it.
const BY_TOKEN: Will = Will::Server { granted: false };

impl Sessions {
    /// The backend makes a session follow a channel, whatever its client's token allows. If it does already, nothing changes.
    pub(crate) fn subscribe_for(
        self: &Arc<Self>,
        session: &SessionCell,
        name: &ChannelName,
        begin: &Beginning<'_>,
    ) -> Answer<Result<Subscribed, NotSubscribed>> {
        self.follow(session, Will::Server { granted: true }, || Holder::Operator, name, begin)
    }

    /// The backend has a session leave a channel. Nothing happens if it does not follow it.
    ///
    /// # Errors
    /// [`NotSubscribed`]: the session is over here.
    pub(crate) fn unsubscribe_for(
        &self,
        session: &SessionCell,
        name: &ChannelName,
    ) -> Result<(), NotSubscribed> {
        let left = self.step(session, |state, _| {
            match state.machine.phase() {
                Phase::Closed(_) => return Err(NotSubscribed::Ended),
                Phase::Moved => return Err(NotSubscribed::Draining),
                Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended => {}
            }
            let found = state.find(name.as_str()).map(|(slot, followed)| (slot, followed.clone()));
            if let Some((slot, followed)) = &found {
                state.machine.outbox_mut().unsubscribe_and_tell(*slot);
                self.note_left(session, &state.identity, &followed.channel);
            }
            Ok(found)
        })?;
        if let Some((_, followed)) = left {
            self.release(&followed);
            session.wake_to_read();
        }
        Ok(())
    }

    /// The session joins the channels of its client's token that its token of before did not name. What comes of each is seen by its client: it is told of
    /// those that it follows from now on.
    pub(super) fn join_by_token(
        self: &Arc<Self>,
        session: &SessionCell,
        identity: &Identity,
        before: &Identity,
    ) {
        let new = identity.joins().filter(|name| !before.joins().any(|known| known == *name));
        for name in new.filter_map(|name| ChannelName::new(name, usize::MAX).ok()) {
            let user = identity.shared_user();
            let maker = move || user.clone().map_or(Holder::Operator, Holder::User);
            let joined = self.follow(session, BY_TOKEN, &maker, &name, &Beginning::Now);
            if !matches!(joined, Answer::Ready(Ok(_))) {
                let (this, session) = (Arc::clone(self), self.hold(session));
                let joining = async move { this.join_later(&session, maker, &name, joined).await };
                self.executor.spawn(Box::pin(joining));
            }
        }
    }

    /// The session has asked for a channel of its token. An engine that had too much to do then is asked again: many sessions may begin at once.
    async fn join_later(
        self: &Arc<Self>,
        session: &SessionCell,
        maker: impl Fn() -> Holder,
        name: &ChannelName,
        mut joined: Answer<Result<Subscribed, NotSubscribed>>,
    ) {
        let mut pauses = Pauses::new();
        while let Err(error) = joined.await {
            if error != NotSubscribed::Engine(EngineError::Overloaded) {
                let session = session.id();
                tracing::info!(%session, channel = %name, %error, "a channel of the token was not joined");
                return;
            }
            self.timeouts.sleep(pauses.pause()).await;
            joined = self.follow(session, BY_TOKEN, &maker, name, &Beginning::Now);
        }
    }
}
