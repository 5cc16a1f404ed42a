//! Sessions by user.

use std::collections::BTreeSet;
use std::sync::Arc;

use encke_core::session::Phase;
use parking_lot::Mutex;

use super::cell::{SessionCell, SessionHandle, SessionRef, SessionState};
use super::sessions::Sessions;
use crate::auth::Identity;

/// The sessions of users by name. Those of nobody are not in it.
///
/// A session is in it from its first step to its end. Locked for one session, or for one page.
#[derive(Debug, Default)]
pub(super) struct Users(Mutex<BTreeSet<(Arc<str>, SessionRef)>>);

impl Users {
    pub(super) fn add(&self, user: Arc<str>, session: SessionRef) {
        self.0.lock().insert((user, session));
    }

    /// Harmless if it is not there.
    pub(super) fn remove(&self, user: Arc<str>, session: SessionRef) {
        self.0.lock().remove(&(user, session));
    }

    /// Those in the slots from `from` on, at most `limit`, and where the next page begins.
    fn page(&self, user: &str, from: u32, limit: usize) -> (Vec<SessionRef>, Option<u32>) {
        let first = (user.into(), SessionRef::first_of(from));
        let all = self.0.lock();
        let theirs = all.range(first..).take_while(|(of, _)| **of == *user);
        let page: Vec<_> = theirs.map(|(_, session)| *session).take(limit).collect();
        let last = page.last().filter(|_| page.len() == limit);
        let next = last.and_then(|last| last.index().checked_add(1));
        (page, next)
    }
}

impl Sessions {
    /// The sessions of this user in the slots from `from` on, at most `limit`, and where the next page begins. A page may be short, and not the last. A session stays in
    /// its slot, so each that is there all along is on one page.
    pub(crate) fn of_user(&self, user: &str, from: u32, limit: usize) -> (Vec<SessionHandle>, Option<u32>) {
        let (page, next) = self.users.page(user, from, limit);
        let found = page.into_iter().filter_map(|session| self.cells.get(session));
        (found.map(|session| self.cells.hold(&session)).collect(), next)
    }

    /// The session can be found by its user, unless it has ended already. Its state is locked, so that it does not end meanwhile: whatever ends it
    /// takes it out again after that.
    pub(super) fn enter_user(&self, session: &SessionCell, state: &SessionState) {
        let has_ended = matches!(state.machine.phase(), Phase::Closed(_));
        if let Some(user) = state.identity.shared_user().filter(|_| !has_ended) {
            self.users.add(user, session.reference());
        }
    }

    /// The session has ended.
    pub(super) fn leave_user(&self, session: &SessionCell, identity: &Identity) {
        if let Some(user) = identity.shared_user() {
            self.users.remove(user, session.reference());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(slot: u32, number: u32) -> SessionRef {
        SessionRef::of_number(u64::from(number) << 32 | u64::from(slot))
    }

    #[test]
    fn each_has_its_own() {
        let users = Users::default();
        for (user, slot) in [("alice", 3), ("bob", 2), ("alice", 1), ("al", 0), ("alice2", 4)] {
            users.add(user.into(), session(slot, slot + 7));
        }
        let slots = |user: &str| {
            let (page, next) = users.page(user, 0, 10);
            assert_eq!(next, None);
            page.iter().map(|session| session.index()).collect::<Vec<_>>()
        };
        assert_eq!((slots("alice"), slots("bob"), slots("al")), (vec![1, 3], vec![2], vec![0]));
        assert_eq!((slots(""), slots("eve")), (vec![], vec![]));
        users.remove("alice".into(), session(1, 8));
        users.remove("alice".into(), session(1, 8));
        users.remove("bob".into(), session(2, 1));
        assert_eq!((slots("alice"), slots("bob")), (vec![3], vec![2]), "another thing of the slot");
    }

    #[test]
    fn pages_have_each_once() {
        let users = Users::default();
        let all: Vec<u32> = (0..10).chain([u32::MAX]).collect();
        all.iter().for_each(|slot| users.add("alice".into(), session(*slot, 1)));
        for limit in 1..=12 {
            let (mut found, mut next) = (Vec::new(), Some(0));
            while let Some(from) = next {
                let (page, after) = users.page("alice", from, limit);
                assert!(page.len() <= limit);
                found.extend(page.iter().map(|session| session.index()));
                next = after;
            }
            assert_eq!(found, all, "{limit} at a time");
        }
    }
}
