//! Saving sessions to a snapshot, and restoring them in another process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use encke_base::quota::QuotaOwner;
use encke_broker::channel::RestoredLogs;
use encke_core::session::{OutboxRecord, Phase, Session, SessionRecord};

use super::sessions::Sessions;
use crate::auth::Identity;
use crate::session::arrival::Arrival;
use crate::session::channels::{Channel, SessionOutbox};
use crate::session::id::{ResumeSecret, SecretDigest};
use crate::session::panics::unless_panicked;
use crate::session::session_ref::SessionRef;
use crate::session::table::{
    DIALECTS, NotRestored, PollAdvice, Rename, SessionCell, SessionHandle, SessionState, StoredEnd,
    StoredRename, StoredSession, TRANSPORTS, index_of, value_at,
};

/// Restored sessions, with their quota owners and how long each has been without a connection.
#[derive(Default)]
pub(crate) struct RestoredSessions(Vec<(Duration, QuotaOwner, SessionHandle)>);

impl RestoredSessions {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

/// Size of a session's record without its subscriptions: 200 bytes, and room for the client's permissions.
const SESSION_BYTES: usize = 512;
/// Size of the record of a subscription, with its unacknowledged messages.
const SUBSCRIPTION_BYTES: usize = 64;

impl Sessions {
    /// Estimates the size of the records of all sessions.
    pub(crate) fn estimate_snapshot(&self) -> usize {
        let sessions = self.table.registry().pages().flatten();
        let sizes = sessions.map(|session| {
            let state = session.lock();
            let renames = state.renames().iter().map(|Rename { requested, actual }| {
                SUBSCRIPTION_BYTES + requested.as_str().len() + actual.as_str().len()
            });
            let channels = state.machine.outbox().channels().count();
            SESSION_BYTES + SUBSCRIPTION_BYTES * channels + renames.sum::<usize>()
        });
        sizes.sum()
    }

    /// Writes a record of each session that has moved, with the channels that it refers to.
    pub(crate) fn snapshot<E>(
        &self,
        mut write: impl FnMut(&StoredSession, &[Arc<Channel>]) -> Result<(), E>,
    ) -> Result<(), E> {
        for session in self.table.registry().pages().flatten() {
            match unless_panicked(|| self.snapshot_of(&session)) {
                Some(Some((stored, channels))) => write(&stored, &channels)?,
                Some(None) => {}
                None => {
                    tracing::error!(session = %session.id(), "panic while saving a session; it is not saved")
                }
            }
        }
        Ok(())
    }

    /// Returns records of sessions that ended before their clients could be notified.
    pub(crate) fn snapshot_ends(&self) -> Vec<StoredEnd> {
        self.lifecycle.ended.snapshot()
    }

    /// Restores the record of an ended session.
    ///
    /// # Errors
    /// Returns [`NotRestored`] if clients are never notified of its close code. Nothing changes in that case.
    pub(crate) fn restore_end(&self, stored: &StoredEnd) -> Result<(), NotRestored> {
        let is_restored = self.lifecycle.ended.restore(stored);
        is_restored
            .then_some(())
            .ok_or(NotRestored::Contradiction("clients are never notified of this close code"))
    }

    fn snapshot_of(&self, session: &SessionCell) -> Option<(StoredSession, Vec<Arc<Channel>>)> {
        let digest = self.table.restored_credentials().digest_of(session)?;
        let state = session.lock();
        let machine = state.machine.snapshot(self.lifecycle.settings())?;
        let channels =
            state.machine.outbox().channels().map(|subscription| Arc::clone(&subscription.channel));
        let channels = channels.collect();
        Some((self.record_of(session, &state, digest, machine), channels))
    }

    /// Returns the record of a session, with this record of its state machine.
    pub(crate) fn record_of(
        &self,
        session: &SessionCell,
        state: &SessionState,
        digest: SecretDigest,
        machine: SessionRecord,
    ) -> StoredSession {
        let subscriptions = state.machine.outbox().subscriptions().map(|it| it.channel);
        let unlisted = subscriptions.filter(|it| !it.channel.is_listed(it.key)).map(|it| it.channel.name());
        let online = self.lifecycle.online.as_ref();
        let position = state.eviction_position().map(|position| position.owner.clone());
        let owner = position
            .or_else(|| Some(QuotaOwner::new(state.identity.shared_user(), state.address()?)))
            .unwrap_or(QuotaOwner::Operator);
        StoredSession {
            id: session.id().bytes(),
            secret_digest: digest.0,
            machine,
            transport: index_of(&TRANSPORTS, &state.transport),
            dialect: index_of(&DIALECTS, &state.dialect),
            advised_all: state.poll_advice.all,
            advised_pause: state.poll_advice.pause,
            identity: state.identity.record(),
            owner: owner.to_text(),
            renames: state.renames().iter().map(StoredRename::from).collect(),
            unlisted: unlisted.map(|name| name.as_str().to_owned()).collect(),
            is_online: online.is_some_and(|online| online.contains(session.reference(), state)),
        }
    }

    /// Raises the connection count to `connections`, from which numbering continues.
    pub(crate) fn restore_connections(&self, connections: u64) {
        self.connections.fetch_max(connections.min(u64::MAX / 2), Ordering::Relaxed);
    }

    /// Returns the name under which other servers know the users of this one.
    pub(crate) fn name_of_users(&self) -> Option<String> {
        self.lifecycle.online.as_ref()?.sink().name()
    }

    /// Takes over the users of the previous process, which had this name.
    pub(crate) fn continue_users(&self, name: String) {
        if let Some(online) = &self.lifecycle.online {
            online.sink().continue_from(name);
        }
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Restores a session as suspended. Its channels must already have been restored.
    ///
    /// # Errors
    /// Returns [`NotRestored`] if the record is invalid or the limit on sessions is reached. Nothing changes
    /// in that case.
    pub(crate) fn restore(
        &self,
        stored: StoredSession,
        logs: &mut RestoredLogs<SessionRef>,
        restored: &mut RestoredSessions,
    ) -> Result<(), NotRestored> {
        let restore = |session: &SessionCell, outbox: &_| self.subscriptions.restore(session, outbox, logs);
        self.restore_with(stored, false, None, |_| {}, restore, restored)
    }

    /// Restores a session. `is_attached`: its client was connected to another server. `secret` is `None` if only its digest
    /// is known. `outbox` restores the outbox. Calls `prepare` before other threads can find the session.
    pub(crate) fn restore_with(
        &self,
        stored: StoredSession,
        is_attached: bool,
        secret: Option<ResumeSecret>,
        prepare: impl FnOnce(&mut SessionState),
        outbox: impl FnOnce(&SessionCell, &OutboxRecord) -> Result<SessionOutbox, NotRestored>,
        restored: &mut RestoredSessions,
    ) -> Result<(), NotRestored> {
        let id = stored.id();
        if self.table.registry().get(id).is_some() {
            return Err(NotRestored::Contradiction("the id of another session"));
        }
        let unknown = || NotRestored::Contradiction("an unknown transport, dialect or quota owner");
        let owner = QuotaOwner::from_text(&stored.owner).ok_or_else(unknown)?;
        let now = self.timeouts.clock().now();
        let outbox_later = self.subscriptions.new_outbox();
        let machine = match is_attached {
            true => Session::restore_attached(now, &stored.machine, outbox_later, self.lifecycle.settings())?,
            false => Session::restore(now, &stored.machine, outbox_later)?,
        };
        let phase = machine.phase();
        let mut state = SessionState {
            machine,
            mailbox: None,
            transport: value_at(&TRANSPORTS, stored.transport).ok_or_else(unknown)?,
            dialect: value_at(&DIALECTS, stored.dialect).ok_or_else(unknown)?,
            arrival: Arrival::default(),
            poll_advice: PollAdvice { all: stored.advised_all, pause: stored.advised_pause },
            identity: Identity::restore(stored.identity),
            parked: None,
            rare: None,
        };
        prepare(&mut state);
        let session = self.table.occupy(id, secret, state).ok_or(NotRestored::TooManySessions)?;
        let outbox = outbox(&session, &stored.machine.outbox);
        outbox.and_then(|outbox| self.enter(&session, outbox))?;
        for rename in stored.renames.iter().filter_map(StoredRename::rename) {
            self.subscriptions.add_rename(&session, rename);
        }
        self.subscriptions.restore_joins(&session, &owner, &stored.unlisted);
        if secret.is_none() {
            self.table.restored_credentials().add(id, SecretDigest(stored.secret_digest));
        }
        self.metrics.sessions.phase_changed(None, phase);
        // This step also requests the session's next deadline from the wheel.
        self.lifecycle.step(&session, |state, _| self.table.add_to_users(&session, state));
        let online = self.lifecycle.online.as_ref().filter(|_| stored.is_online);
        if let (Some(online), Some(user)) = (online, session.identity().shared_user()) {
            online.restored(user, session.reference());
        }
        restored.0.push((Duration::from_nanos(stored.machine.detached_for_ns), owner, session));
        Ok(())
    }

    fn enter(&self, session: &SessionCell, outbox: SessionOutbox) -> Result<(), NotRestored> {
        *session.lock().machine.outbox_mut() = outbox;
        self.table.registry().insert(session).map_err(|_| {
            let subscriptions: Vec<_> = session.lock().machine.outbox_mut().clear().collect();
            subscriptions
                .iter()
                .for_each(|subscription| self.subscriptions.complete_unsubscribe(subscription));
            NotRestored::TooManySessions
        })
    }

    /// Completes the restore of all sessions. When room is needed, the sessions that have been without a
    /// connection longest are evicted first.
    pub(crate) fn settle(&self, RestoredSessions(mut sessions): RestoredSessions) {
        sessions.sort_by_key(|(detached_for, ..)| std::cmp::Reverse(*detached_for));
        for (_, owner, session) in sessions {
            let mut state = session.lock();
            if state.machine.phase() == Phase::Suspended && state.eviction_position().is_none() {
                self.lifecycle.suspended.add(session.id(), &mut state, owner);
            }
            drop(state);
            // Now that all sessions of each user count, steps may find users to be offline.
            if self.lifecycle.online.is_some() {
                self.lifecycle.step(&session, |_, _| ());
            }
        }
    }
}
