//! What the backend says to one session, or to all sessions of a user.
//!
//! It is read from a log like all others, which has an id or a user in its name: so it has seqs, is replayed, told as a gap where it is gone, and kept over a
//! restart. A log comes to be when something is said for the first time, and is gone once nobody reads it any more; it is in the memory of this
//! server, whatever the engine. A session that nothing is said to has none of it.

use encke_core::message::Content;
use encke_core::session::Phase;

use super::cell::{SessionCell, SessionRef};
use super::sessions::Sessions;
use super::subscriptions::Followed;
use crate::admission::Holder;
use crate::channel::{ChannelName, Hold, NotPublished, Published, Retired};

/// Why something was not said to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotSaid {
    #[error("the session has ended")]
    Ended,
    #[error("the server is going away, and the session goes on in the next one")]
    Moved,
    #[error(transparent)]
    NotPublished(#[from] NotPublished),
}

impl Sessions {
    /// Says something to one session.
    ///
    /// # Errors
    /// [`NotSaid`], and nothing was said.
    pub(crate) fn say_to_session(
        &self,
        session: &SessionCell,
        content: &Content<'_>,
    ) -> Result<Published, NotSaid> {
        let log = self.direct_log(&ChannelName::to_session(&session.id()))?;
        self.follow_direct(session, &log)?;
        Ok(self.say(&log, content)?)
    }

    /// The log of what is said to all sessions of a user. Those that are to hear it [follow it](Self::follow_direct) first.
    ///
    /// # Errors
    /// [`NotPublished`].
    pub(crate) fn user_log(&self, user: &str) -> Result<Hold<SessionRef>, NotPublished> {
        self.direct_log(&ChannelName::to_user(user))
    }

    fn direct_log(&self, name: &ChannelName) -> Result<Hold<SessionRef>, NotPublished> {
        if self.logs.channels.is_closed() {
            return Err(NotPublished::Draining);
        }
        Ok(self.logs.channels.hold(name, &Holder::Operator)?)
    }

    /// Says something to all that follow this log, which is held for that.
    ///
    /// # Errors
    /// [`NotPublished`].
    pub(crate) fn say(
        &self,
        log: &Hold<SessionRef>,
        content: &Content<'_>,
    ) -> Result<Published, NotPublished> {
        self.logs.channels.publish(log.channel().name(), &Holder::Operator, content, None)
    }

    /// The session hears what is said on this log from now on, if it does not yet.
    ///
    /// # Errors
    /// [`NotSaid`].
    pub(crate) fn follow_direct(&self, session: &SessionCell, log: &Hold<SessionRef>) -> Result<(), NotSaid> {
        let channel = log.channel();
        let is_new = self.step(session, |state, _| {
            match state.machine.phase() {
                Phase::Closed(_) => return Err(NotSaid::Ended),
                Phase::Moved => return Err(NotSaid::Moved),
                Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended => {}
            }
            if state.find(channel.name().as_str()).is_some() {
                return Ok(false);
            }
            let joined = channel.join(session.reference(), |log, add| {
                let follow = |slot| Followed { channel: channel.clone(), key: add(slot) };
                state.machine.outbox_mut().subscribe_with(follow, log.last, false);
            });
            joined.map_err(|Retired| NotSaid::Ended).map(|()| true)
        })?;
        if is_new {
            // It reads to the end, and is told from then on.
            session.wake_to_read();
        }
        Ok(())
    }

    /// A session has begun that can be found by its user. It hears what is said to that from now on, if anything was said to others: whoever says something
    /// makes the log first, and then looks for sessions.
    pub(super) fn follow_user(&self, session: &SessionCell, user: &str) {
        if let Some(log) = self.logs.channels.hold_direct(|| ChannelName::to_user(user)) {
            // If it has ended by now, it hears nothing.
            _ = self.follow_direct(session, &log);
        }
    }
}
