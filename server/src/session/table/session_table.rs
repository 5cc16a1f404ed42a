use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use encke_base::arena::SlotGuard;
#[cfg(all(test, feature = "simulation"))]
use encke_base::fail_point::{self, FailPoint};
use encke_core::session::{ConnectionId, Phase};

use super::cell::{Cells, SessionCell, SessionHandle, SessionState, StateGuard};
use super::registry::Registry;
use super::restored_credentials::RestoredCredentials;
use super::users::Users;
use crate::auth::Identity;
use crate::session::id::{ResumeSecret, ResumeToken, SessionId};
use crate::session::panics::unless_panicked;
use crate::session::session_ref::SessionRef;

/// All sessions. Channels find the sessions of their subscribers here.
pub(crate) struct SessionTable {
    cells: Arc<Cells>,
    registry: Registry,
    users: Users,
    /// Secrets of restored sessions whose clients have not reconnected yet.
    restored_credentials: RestoredCredentials,
    /// Set when the lifecycle is created, after this table.
    lifecycle: OnceLock<Weak<dyn SessionLifecycle>>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TableLimits {
    /// Maximum number of sessions, including suspended ones.
    pub(crate) sessions: usize,
    /// Maximum number of slots. A session that has ended keeps its slot until its last task has ended.
    pub(crate) slots: usize,
}

/// Operations of the lifecycle that may be needed after a change outside a step. This is a trait because the
/// table must not depend on the lifecycle.
pub(crate) trait SessionLifecycle: Send + Sync {
    /// Notifies the session's state machine that messages were sent on a connection.
    fn messages_sent(&self, session: &SessionCell, connection: ConnectionId);

    /// Ends a session after a panic in a change of its state.
    fn end_half_changed(&self, session: &SessionCell, state: StateGuard<'_>);
}

impl SessionTable {
    pub(crate) fn new(limits: TableLimits) -> Self {
        let cells = Arc::new(Cells::new(limits.slots));
        Self {
            registry: Registry::new(limits.sessions, Arc::clone(&cells)),
            cells,
            users: Users::default(),
            restored_credentials: RestoredCredentials::default(),
            lifecycle: OnceLock::new(),
        }
    }

    pub(crate) fn set_lifecycle(&self, lifecycle: Weak<dyn SessionLifecycle>) {
        _ = self.lifecycle.set(lifecycle);
    }

    pub(crate) fn lifecycle(&self) -> Option<Arc<dyn SessionLifecycle>> {
        self.lifecycle.get().and_then(Weak::upgrade)
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn restored_credentials(&self) -> &RestoredCredentials {
        &self.restored_credentials
    }

    /// Puts a session into a vacant slot. It cannot be found by its id yet. Returns `None` if all slots are
    /// occupied.
    pub(crate) fn occupy(
        &self,
        id: SessionId,
        secret: Option<ResumeSecret>,
        state: SessionState,
    ) -> Option<SessionHandle> {
        self.cells.insert(|cell| cell.occupy(id, secret, state))
    }

    /// Returns the session, unless it has ended.
    #[inline]
    pub(crate) fn get(&self, reference: SessionRef) -> Option<SlotGuard<'_, SessionCell>> {
        self.cells.get(reference.0)
    }

    /// Whether the session still exists.
    pub(crate) fn contains(&self, reference: SessionRef) -> bool {
        self.cells.contains(reference.0)
    }

    /// Returns the session in this slot, if there is one.
    #[inline]
    pub(crate) fn get_at(&self, slot: u32) -> Option<SlotGuard<'_, SessionCell>> {
        self.cells.get_at(slot)
    }

    /// Creates another handle to a session.
    pub(crate) fn clone_handle(&self, session: &SessionCell) -> SessionHandle {
        self.cells.guard(session)
    }

    /// Iterates over all sessions, including those that have ended but still have a task.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SlotGuard<'_, SessionCell>> {
        self.cells.iter_from(0)
    }

    /// Returns the number of sessions that are still referenced: those in the registry, and those that have
    /// ended but still have a task.
    #[cfg(feature = "simulation")]
    pub(crate) fn referenced(&self) -> usize {
        self.cells.len()
    }

    /// Finds the session of a resume token.
    pub(crate) fn find(&self, token: &ResumeToken) -> Option<SessionHandle> {
        self.registry.get(token.id).filter(|session| match session.secret() {
            Some(secret) => secret.matches(&token.secret),
            None => self.restored_credentials.claim(session, &token.secret),
        })
    }

    /// Returns the user's first `limit` sessions in slot `from` and above, and the slot at which the next
    /// page begins. A page may have fewer than `limit` sessions without being the last. A session never
    /// changes its slot, so a session that exists throughout is on exactly one page.
    pub(crate) fn of_user(&self, user: &str, from: u32, limit: usize) -> (Vec<SessionHandle>, Option<u32>) {
        let (page, next) = self.users.page(user, from, limit);
        let found = page.into_iter().filter_map(|session| self.get(session));
        (found.map(|session| self.clone_handle(&session)).collect(), next)
    }

    /// Returns the next user with a session after `user`, in the order of names, or the first one if `user` is
    /// `None`.
    pub(crate) fn user_after(&self, user: Option<&str>) -> Option<Arc<str>> {
        self.users.after(user)
    }

    /// Adds a session to the index of its user, unless the session has already ended. The caller holds the
    /// lock of the session's state, so the session cannot end in the meantime. When the session ends, it is
    /// removed from the index.
    pub(crate) fn add_to_users(&self, session: &SessionCell, state: &SessionState) {
        let has_ended = matches!(state.machine.phase(), Phase::Closed(_));
        if let Some(user) = state.identity.shared_user().filter(|_| !has_ended) {
            self.users.add(user, session.reference());
        }
    }

    /// Removes a session that has ended. Handles to it remain valid.
    pub(crate) fn remove(&self, session: &SessionCell, identity: &Identity) {
        self.registry.remove(session);
        if let Some(user) = identity.shared_user() {
            self.users.remove(user, session.reference());
        }
        self.restored_credentials.forget(session);
    }

    /// Makes a change that needs no step, because it affects neither the session's phase nor its deadlines.
    /// Returns `None` if the change panicked, in which case the session has been closed.
    #[inline]
    pub(crate) fn change<R>(
        &self,
        session: &SessionCell,
        act: impl FnOnce(&mut SessionState) -> R,
    ) -> Option<R> {
        let mut state = session.lock();
        let result = unless_panicked(|| {
            let result = act(&mut state);
            #[cfg(all(test, feature = "simulation"))]
            fail_point::reach(FailPoint::SessionChange);
            result
        });
        if result.is_none() {
            self.end_half_changed(session, state);
        }
        result
    }

    #[cold]
    fn end_half_changed(&self, session: &SessionCell, state: StateGuard<'_>) {
        if let Some(lifecycle) = self.lifecycle() {
            lifecycle.end_half_changed(session, state);
        }
    }
}

impl fmt::Debug for SessionTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionTable").field("sessions", &self.registry.len()).finish_non_exhaustive()
    }
}
