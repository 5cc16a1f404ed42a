//! Writing sessions down, and going on with them in another process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use encke_core::session::outbox::Slot;
use encke_core::session::{BadRecord, Outbox, Phase, Session, SessionRecord};

use super::Channel;
use super::cell::{Advised, SessionCell, SessionHandle, SessionRef, SessionState};
use super::id::SecretDigest;
use super::record::{DIALECTS, StoredEnd, StoredSession, TRANSPORTS, number_of, numbered};
use super::sessions::Sessions;
use super::subscriptions::Followed;
use crate::admission::Holder;
use crate::auth::Identity;
use crate::channel::{RestoredLogs, SubscriberKey};

/// Why a session does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotRestored {
    #[error("a session with {0}")]
    BadRecord(#[from] BadRecord),
    #[error("a session with {0}")]
    Contradiction(&'static str),
    #[error("the limit of sessions is reached (limits.max_sessions)")]
    TooManySessions,
}

/// Sessions that have been restored, and how long each has been without a connection.
#[derive(Debug, Default)]
pub(crate) struct RestoredSessions(Vec<(Duration, Holder, SessionHandle)>);

impl RestoredSessions {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Sessions {
    /// Writes down every session that has moved, each with the channels that it remembers.
    pub(crate) fn snapshot<E>(
        &self,
        mut write: impl FnMut(&StoredSession, &[Arc<Channel>]) -> Result<(), E>,
    ) -> Result<(), E> {
        for session in self.registry.pages().flatten() {
            if let Some((stored, channels)) = self.snapshot_of(&session) {
                write(&stored, &channels)?;
            }
        }
        Ok(())
    }

    /// Writes down the ends that clients were not told.
    pub(crate) fn snapshot_ends(&self) -> Vec<StoredEnd> {
        self.untold.snapshot()
    }

    /// Remembers an end that a client was not told.
    ///
    /// # Errors
    /// [`NotRestored`], and nothing changes.
    pub(crate) fn restore_end(&self, stored: &StoredEnd) -> Result<(), NotRestored> {
        let is_told = self.untold.restore(stored);
        is_told.then_some(()).ok_or(NotRestored::Contradiction("an end that nobody is told"))
    }

    fn snapshot_of(&self, session: &SessionCell) -> Option<(StoredSession, Vec<Arc<Channel>>)> {
        let digest = self.unclaimed.digest_of(session)?;
        let state = session.lock();
        let machine = state.machine.snapshot(&self.settings)?;
        let channels = state.machine.outbox().channels().map(|followed| Arc::clone(&followed.channel));
        let stored = StoredSession {
            id: session.id().bytes(),
            secret_digest: digest.0,
            machine,
            transport: number_of(&TRANSPORTS, &state.transport),
            dialect: number_of(&DIALECTS, &state.dialect),
            advised_all: state.advised.all,
            advised_pause: state.advised.pause,
            identity: state.identity.record(),
            holder: state
                .suspended
                .as_ref()
                .map_or(Holder::Operator, |place| place.holder().clone())
                .to_text(),
        };
        Some((stored, channels.collect()))
    }

    /// Connections get numbers from this one on.
    pub(crate) fn restore_connections(&self, connections: u64) {
        self.connections.fetch_max(connections.min(u64::MAX / 2), Ordering::Relaxed);
    }

    /// Connections so far.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Goes on with a session, suspended. Its channels have been restored before.
    ///
    /// # Errors
    /// [`NotRestored`], and nothing changes.
    pub(crate) fn restore(
        &self,
        stored: StoredSession,
        logs: &mut RestoredLogs<SessionRef>,
        restored: &mut RestoredSessions,
    ) -> Result<(), NotRestored> {
        let id = stored.id();
        if self.registry.get(id).is_some() {
            return Err(NotRestored::Contradiction("the id of another"));
        }
        let unknown = || NotRestored::Contradiction("an unknown transport, dialect or holder");
        let holder = Holder::of_text(&stored.holder).ok_or_else(unknown)?;
        let now = self.timeouts.clock().now();
        let machine = Session::restore(now, &stored.machine, Outbox::new(self.limits.unacked))?;
        let state = SessionState {
            machine,
            link: None,
            transport: numbered(&TRANSPORTS, stored.transport).ok_or_else(unknown)?,
            dialect: numbered(&DIALECTS, stored.dialect).ok_or_else(unknown)?,
            advised: Advised { all: stored.advised_all, pause: stored.advised_pause },
            identity: Identity::restore(stored.identity),
            resting: None,
            suspended: None,
        };
        let session =
            self.cells.enter(|cell| cell.enter(id, None, state)).ok_or(NotRestored::TooManySessions)?;
        let followed = self.rejoin(&session, &stored.machine, logs);
        followed.and_then(|outbox| self.enter(&session, outbox))?;
        self.unclaimed.add(id, SecretDigest(stored.secret_digest));
        self.metrics.sessions.phase_changed(None, Phase::Suspended);
        // Asks the wheel for its next deadline.
        self.step(&session, |state, _| self.enter_user(&session, state));
        restored.0.push((Duration::from_nanos(stored.machine.left_ns), holder, session));
        Ok(())
    }

    /// The session follows its channels again.
    fn rejoin(
        &self,
        session: &SessionCell,
        machine: &SessionRecord,
        logs: &mut RestoredLogs<SessionRef>,
    ) -> Result<Outbox<Followed>, NotRestored> {
        let mut joined: Vec<Followed> = Vec::new();
        let follow = |number, slot, live: bool| {
            if !live {
                let channel = self.logs.channels.remembered(number, logs)?;
                return Some(Followed { channel, key: SubscriberKey::NOBODY });
            }
            let channel = Arc::clone(logs.get(number)?);
            let key = channel.rejoin(session.reference(), slot)?;
            joined.push(Followed { channel: Arc::clone(&channel), key });
            Some(Followed { channel, key })
        };
        let outbox = Outbox::restore(&machine.outbox, self.limits.unacked, follow);
        let outbox = outbox.map_err(NotRestored::from).and_then(|mut outbox| {
            let ends: Vec<(Slot, u64, u64)> = outbox
                .subscriptions()
                .map(|view| (view.slot, view.cursor, view.channel.channel.last_offset()))
                .collect();
            for (slot, cursor, last) in ends {
                if cursor > last {
                    return Err(NotRestored::Contradiction("a cursor beyond the end of its log"));
                }
                // It may not have been told yet.
                if cursor < last {
                    outbox.mark_ready(slot);
                }
            }
            Ok(outbox)
        });
        if outbox.is_err() {
            joined.iter().for_each(|followed| self.release(followed));
        }
        outbox
    }

    fn enter(&self, session: &SessionCell, outbox: Outbox<Followed>) -> Result<(), NotRestored> {
        *session.lock().machine.outbox_mut() = outbox;
        self.registry.insert(session).map_err(|_| {
            let followed: Vec<_> = session.lock().machine.outbox_mut().clear().collect();
            followed.iter().for_each(|followed| self.release(followed));
            NotRestored::TooManySessions
        })
    }

    /// All are restored: those that have been without a connection for longest are the first to go when there is no room.
    pub(crate) fn settle(&self, RestoredSessions(mut sessions): RestoredSessions) {
        sessions.sort_by_key(|(left, ..)| std::cmp::Reverse(*left));
        for (_, holder, session) in sessions {
            let mut state = session.lock();
            if state.machine.phase() == Phase::Suspended && state.suspended.is_none() {
                self.suspended.add(session.id(), &mut state, holder);
            }
        }
    }
}
