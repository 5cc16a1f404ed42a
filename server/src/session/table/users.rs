//! Index of sessions by user.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use encke_base::locks::Mutex;

use crate::session::session_ref::SessionRef;

/// Index of the sessions of named users, without the sessions of anonymous clients.
///
/// A session is in the index from its first step to its end. The lock is held for one session, or one page,
/// at a time.
#[derive(Debug, Default)]
pub(crate) struct Users(Mutex<BTreeSet<(Arc<str>, SessionRef)>>);

impl Users {
    pub(crate) fn add(&self, user: Arc<str>, session: SessionRef) {
        self.0.lock().insert((user, session));
    }

    /// Removes a session. Has no effect if it is not in the index.
    pub(crate) fn remove(&self, user: Arc<str>, session: SessionRef) {
        self.0.lock().remove(&(user, session));
    }

    /// Returns the user's first `limit` sessions in slot `from` and above, and the slot at which the next
    /// page begins.
    pub(crate) fn page(&self, user: &str, from: u32, limit: usize) -> (Vec<SessionRef>, Option<u32>) {
        let first = (user.into(), SessionRef::first_in(from));
        let all = self.0.lock();
        let own = all.range(first..).take_while(|(of, _)| **of == *user);
        let page: Vec<_> = own.map(|(_, session)| *session).take(limit).collect();
        let last = page.last().filter(|_| page.len() == limit);
        let next = last.and_then(|last| last.slot().checked_add(1));
        (page, next)
    }

    /// Returns the next user after `user`, in the order of names, or the first one if `user` is `None`.
    pub(crate) fn after(&self, user: Option<&str>) -> Option<Arc<str>> {
        let last_of = |user: &str| (user.into(), SessionRef::first_in(u32::MAX));
        let first = user.map_or(Bound::Unbounded, |user| Bound::Excluded(last_of(user)));
        let all = self.0.lock();
        all.range((first, Bound::Unbounded)).next().map(|(user, _)| Arc::clone(user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(slot: u32, number: u32) -> SessionRef {
        SessionRef::from_u64(u64::from(number) << 32 | u64::from(slot))
    }

    #[test]
    fn users_have_their_own_sessions() {
        let users = Users::default();
        for (user, slot) in [("alice", 3), ("bob", 2), ("alice", 1), ("al", 0), ("alice2", 4)] {
            users.add(user.into(), session(slot, slot + 7));
        }
        let slots = |user: &str| {
            let (page, next) = users.page(user, 0, 10);
            assert_eq!(next, None);
            page.iter().map(|session| session.slot()).collect::<Vec<_>>()
        };
        assert_eq!((slots("alice"), slots("bob"), slots("al")), (vec![1, 3], vec![2], vec![0]));
        assert_eq!((slots(""), slots("eve")), (vec![], vec![]));
        assert_eq!(
            [None, Some("alice"), Some("b")].map(|name| users.after(name)),
            [Some("al".into()), Some("alice2".into()), Some("bob".into())]
        );
        users.remove("alice".into(), session(1, 8));
        users.remove("alice".into(), session(1, 8));
        users.remove("bob".into(), session(2, 1));
        assert_eq!((slots("alice"), slots("bob")), (vec![3], vec![2]), "a stale reference removes nothing");
    }

    #[test]
    fn pages_have_every_session_once() {
        let users = Users::default();
        let all: Vec<u32> = (0..10).chain([u32::MAX]).collect();
        all.iter().for_each(|slot| users.add("alice".into(), session(*slot, 1)));
        for limit in 1..=12 {
            let (mut found, mut next) = (Vec::new(), Some(0));
            while let Some(from) = next {
                let (page, after) = users.page("alice", from, limit);
                assert!(page.len() <= limit);
                found.extend(page.iter().map(|session| session.slot()));
                next = after;
            }
            assert_eq!(found, all, "with {limit} per page");
        }
    }
}
