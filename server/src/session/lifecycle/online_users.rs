//! Users that are online: those with at least one session that counts.
//!
//! A session counts from its first connection until it ends, or until it has been without a connection for
//! `session.offline_after`; it counts again once its client resumes it. Each change is part of a step of the
//! session. The deadline shares the session's timer and follows from the time at which the session was
//! suspended, so it takes no memory.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use encke_base::locks::{Mutex, level};
use encke_core::Timestamp;
use encke_core::session::Phase;

use crate::session::session_ref::SessionRef;
use crate::session::table::SessionState;

/// Receiver of changes between online and offline. They alternate for each user, and are reported in order,
/// with a lock held. Implementations must do no more than record them.
pub(crate) trait UserSink: Send + Sync + 'static {
    fn online(&self, user: &Arc<str>);
    fn offline(&self, user: &Arc<str>);

    /// The user is online since before a restart.
    fn restored(&self, _user: &Arc<str>) {}

    /// Returns the name under which other servers know this one, for the next process.
    fn name(&self) -> Option<String> {
        None
    }

    /// Takes over the users of the previous process, which had this name.
    fn continue_from(&self, _name: String) {}
}

/// [Users that are online](self). Anonymous clients are not users.
pub(crate) struct OnlineUsers {
    /// The sessions that count.
    sessions: Mutex<BTreeSet<(Arc<str>, SessionRef)>, level::OnlineUsers>,
    /// How long a session counts without a connection. `None`: until it ends.
    offline_after: Option<Duration>,
    sink: Arc<dyn UserSink>,
}

impl OnlineUsers {
    pub(crate) fn new(sink: Arc<dyn UserSink>, offline_after: Option<Duration>) -> Self {
        Self { sessions: Mutex::default(), offline_after, sink }
    }

    /// Counts a session that was opened.
    pub(super) fn opened(&self, session: SessionRef, state: &SessionState) {
        if let Some(user) = state.identity.shared_user().filter(|_| state.machine.phase().has_client()) {
            self.add(user, session);
        }
    }

    /// Counts a session restored from the previous process, which has already reported its user.
    pub(super) fn restored(&self, user: Arc<str>, session: SessionRef) {
        let mut sessions = self.sessions.lock();
        self.sink.restored(&user);
        sessions.insert((user, session));
    }

    pub(super) fn sink(&self) -> &dyn UserSink {
        &*self.sink
    }

    /// Whether the session counts.
    pub(super) fn contains(&self, session: SessionRef, state: &SessionState) -> bool {
        state.identity.shared_user().is_some_and(|user| self.sessions.lock().contains(&(user, session)))
    }

    /// Returns the time until which the session counts without a connection. `None` if it has a connection or
    /// does not count.
    pub(super) fn deadline(&self, session: SessionRef, state: &SessionState) -> Option<Timestamp> {
        let at = state.machine.suspended_since()? + self.offline_after?;
        self.contains(session, state).then_some(at)
    }

    /// Stops counting the session if it has been without a connection for too long.
    pub(super) fn check_deadline(&self, session: SessionRef, state: &SessionState, now: Timestamp) {
        if self.deadline(session, state).is_some_and(|at| at <= now) {
            self.remove(session, state);
        }
    }

    /// Updates whether the session counts after a change of its phase.
    pub(super) fn phase_changed(
        &self,
        session: SessionRef,
        state: &SessionState,
        before: Phase,
        now: Timestamp,
    ) {
        match state.machine.phase() {
            Phase::Attached(_) | Phase::BetweenPolls if before.has_client() => {}
            Phase::Attached(_) | Phase::BetweenPolls => self.opened(session, state),
            // A session is suspended some time after its last poll.
            Phase::Suspended => self.check_deadline(session, state, now),
            // The next process continues to count the session.
            Phase::Moved => {}
            Phase::Closed(_) => self.remove(session, state),
        }
    }

    fn add(&self, user: Arc<str>, session: SessionRef) {
        let mut sessions = self.sessions.lock();
        let was_online = is_online(&sessions, &user);
        sessions.insert((Arc::clone(&user), session));
        if !was_online {
            self.sink.online(&user);
        }
    }

    /// Stops counting a session. Has no effect if it does not count.
    pub(super) fn remove(&self, session: SessionRef, state: &SessionState) {
        let Some(user) = state.identity.shared_user() else { return };
        let mut sessions = self.sessions.lock();
        let entry = (user, session);
        if sessions.remove(&entry) && !is_online(&sessions, &entry.0) {
            self.sink.offline(&entry.0);
        }
    }
}

fn is_online(sessions: &BTreeSet<(Arc<str>, SessionRef)>, user: &Arc<str>) -> bool {
    let first = (Arc::clone(user), SessionRef::first_in(0));
    sessions.range(first..).next().is_some_and(|(of, _)| of == user)
}
