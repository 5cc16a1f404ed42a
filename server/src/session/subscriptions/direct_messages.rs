//! Direct messages from the backend to one session, or to all sessions of a user.
//!
//! Direct messages are stored in a log like a channel's, named after the session's id or the user. Therefore
//! they have seqs, are replayed, are reported as a gap if they are lost, and survive a restart. A log is
//! created with its first message and removed once it has no subscribers. It is kept in this server's memory,
//! regardless of the engine. A session without direct messages has no such log.

use encke_base::quota::QuotaOwner;
use encke_broker::channel::{ChannelGuard, ChannelName, PublishError, Published, Retired};
use encke_core::message::Content;
use encke_core::session::Phase;

use super::subscribe::Subscriptions;
use super::subscriber::deliver_pending;
use crate::session::channels::SubscribedChannel;
use crate::session::session_ref::SessionRef;
use crate::session::table::{SessionCell, SessionState};

/// Why a direct message was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DirectMessageError {
    #[error("the session has ended")]
    Ended,
    #[error("the server is shutting down; the session continues in the next process")]
    Moved,
    #[error(transparent)]
    NotPublished(#[from] PublishError),
}

impl Subscriptions {
    /// Sends a direct message to one session.
    ///
    /// # Errors
    /// Returns [`DirectMessageError`] if the message was not sent.
    pub(crate) fn send_to_session(
        &self,
        session: &SessionCell,
        content: &Content<'_>,
    ) -> Result<Published, DirectMessageError> {
        let log = self.direct_log(&ChannelName::for_session(&session.id()))?;
        self.subscribe_direct(session, &log)?;
        Ok(self.send_direct(&log, content)?)
    }

    /// Returns the log of direct messages to a user. Sessions have to [subscribe](Self::subscribe_direct)
    /// before a message is sent.
    ///
    /// # Errors
    /// Returns [`PublishError`] if there is no log and none can be created.
    pub(crate) fn user_log(&self, user: &str) -> Result<ChannelGuard<SessionRef>, PublishError> {
        self.direct_log(&ChannelName::for_user(user))
    }

    fn direct_log(&self, name: &ChannelName) -> Result<ChannelGuard<SessionRef>, PublishError> {
        if self.logs.channels.is_closed() {
            return Err(PublishError::Draining);
        }
        Ok(self.logs.channels.acquire(name, &QuotaOwner::Operator)?)
    }

    /// Sends a direct message to the subscribers of this log. The guard keeps the log alive in the meantime.
    ///
    /// # Errors
    /// Returns [`PublishError`] if the message was not sent.
    pub(crate) fn send_direct(
        &self,
        log: &ChannelGuard<SessionRef>,
        content: &Content<'_>,
    ) -> Result<Published, PublishError> {
        self.logs.channels.publish(log.channel().name(), &QuotaOwner::Operator, content, None)
    }

    /// Subscribes a session to a log of direct messages. Has no effect if the session is already subscribed.
    ///
    /// # Errors
    /// Returns [`DirectMessageError`] if the session has ended or moved.
    pub(crate) fn subscribe_direct(
        &self,
        session: &SessionCell,
        log: &ChannelGuard<SessionRef>,
    ) -> Result<(), DirectMessageError> {
        let channel = log.channel();
        let is_new = self.table.change(session, |state: &mut SessionState| {
            match state.machine.phase() {
                Phase::Closed(_) => return Err(DirectMessageError::Ended),
                Phase::Moved => return Err(DirectMessageError::Moved),
                Phase::Attached(_) | Phase::BetweenPolls | Phase::Suspended => {}
            }
            if state.find(channel.name().as_str()).is_some() {
                return Ok(false);
            }
            let joined = channel.join(session.reference(), |log, add| {
                let subscribe = |slot| SubscribedChannel { channel: channel.clone(), key: add(slot) };
                state.machine.outbox_mut().subscribe_with(subscribe, log.last, false);
            });
            state.note_change(session.reference());
            joined.map_err(|Retired| DirectMessageError::Ended).map(|()| true)
        });
        if is_new.unwrap_or(Err(DirectMessageError::Ended))? {
            // The connection now reads the log to its end. It is notified of later messages.
            deliver_pending(&self.table, session);
        }
        Ok(())
    }

    /// Subscribes a new session to the log of its user's direct messages, if there is one. The session must
    /// already be in the index of users: a sender creates the log first and then looks for sessions, so no
    /// session is missed.
    pub(crate) fn subscribe_to_user_log(&self, session: &SessionCell, user: &str) {
        if let Some(log) = self.logs.channels.acquire_direct(|| ChannelName::for_user(user)) {
            // Ignore an error: it means that the session has ended, and needs no messages.
            _ = self.subscribe_direct(session, &log);
        }
    }
}
