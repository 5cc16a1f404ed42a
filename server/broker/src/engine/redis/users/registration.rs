//! Knowledge of Redis about the users of this server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum number of users in one call, which takes Redis about 0.6 ms.
pub(super) const MAX_CHANGES: usize = 100;

/// Maximum number of visitors: users that left before they were registered. More visitors cause no events.
pub(super) const MAX_VISITORS: usize = 1024;

/// Users of this server, and which of them are registered in Redis. Bounded by the users that are online here
/// or registered, and the visitors.
#[derive(Debug, Default)]
pub(super) struct Registration {
    users: BTreeMap<Arc<str>, UserState>,
    /// Users to send, with an event if they are the first or the last.
    unsent: BTreeSet<Arc<str>>,
    /// Users to send without an event: they were registered in an earlier state of Redis, which had reported them.
    unsent_silent: BTreeSet<Arc<str>>,
    visitors: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct UserState {
    is_here: bool,
    /// Whether the user must be registered although it is no longer here, so that both events are sent.
    is_visitor: bool,
    registered: Registered,
}

/// Whether Redis has registered a user on this server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Registered {
    #[default]
    No,
    Yes,
    /// A call is in flight, or its outcome is unknown.
    Unknown,
}

/// Users of one call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) users: Vec<(Arc<str>, bool)>,
    pub(super) is_silent: bool,
}

impl Registration {
    /// Records that the user is online or offline on this server.
    pub(super) fn set(&mut self, user: &Arc<str>, is_online: bool) {
        let state = self.users.entry(Arc::clone(user)).or_default();
        let has_left = !is_online && state.is_here && state.registered == Registered::No;
        if has_left && !state.is_visitor && self.visitors < MAX_VISITORS {
            state.is_visitor = true;
            self.visitors += 1;
        }
        state.is_here = is_online;
        self.unsent.insert(Arc::clone(user));
        self.drop_if_unknown_to_redis(user);
    }

    /// Forgets a user that Redis need not learn of. Otherwise, users that come and go while Redis is unreachable
    /// would take memory.
    fn drop_if_unknown_to_redis(&mut self, user: &Arc<str>) {
        let state = self.users.get(user);
        if let Some(UserState { is_here: false, is_visitor: false, registered: Registered::No }) = state {
            self.users.remove(user);
            self.unsent.remove(user);
        }
    }

    /// Whether there is nothing to send.
    pub(super) fn is_sent(&self) -> bool {
        self.unsent.is_empty() && self.unsent_silent.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Takes the users for the next call. The caller must then call [`Self::confirm`] or [`Self::fail`].
    pub(super) fn take(&mut self) -> Changes {
        let is_silent = !self.unsent_silent.is_empty();
        let unsent = if is_silent { &mut self.unsent_silent } else { &mut self.unsent };
        let (mut users, mut visitors) = (Vec::new(), Vec::new());
        while users.len() < MAX_CHANGES
            && let Some(user) = unsent.pop_first()
        {
            let Some(state) = self.users.get_mut(&user) else { continue };
            // Users that are sent silently are online until their next change is sent.
            let is_online = state.is_here || is_silent || state.is_visitor;
            if std::mem::take(&mut state.is_visitor) {
                self.visitors -= 1;
                // The end is sent in the next call.
                visitors.push(Arc::clone(&user));
            }
            let known = if is_online { Registered::Yes } else { Registered::No };
            if state.registered != known {
                state.registered = Registered::Unknown;
                users.push((user, is_online));
            }
        }
        self.unsent.extend(visitors);
        Changes { users, is_silent }
    }

    /// Records that Redis has executed the call.
    pub(super) fn confirm(&mut self, changes: Changes) {
        for (user, is_online) in changes.users {
            if let Some(state) = self.users.get_mut(&user) {
                state.registered = if is_online { Registered::Yes } else { Registered::No };
            }
            self.drop_if_unknown_to_redis(&user);
        }
    }

    /// Records that the outcome of the call is unknown. The users are sent again.
    pub(super) fn fail(&mut self, changes: Changes) {
        let unsent = if changes.is_silent { &mut self.unsent_silent } else { &mut self.unsent };
        unsent.extend(changes.users.into_iter().map(|(user, _)| user));
    }

    /// Starts over, because the server must use another name in Redis. Users that were registered under the
    /// old name and are offline now are reported when Redis unregisters the old name. With `is_silent`, the
    /// data set has changed; without it, the old name's users have been, or will be, reported as offline.
    pub(super) fn restart(&mut self, is_silent: bool) {
        self.unsent.clear();
        self.unsent_silent.clear();
        self.users.retain(|_, state| state.is_here);
        self.visitors = 0;
        for (user, state) in &mut self.users {
            state.is_visitor = false;
            let is_known = is_silent && state.registered == Registered::Yes;
            let unsent = if is_known { &mut self.unsent_silent } else { &mut self.unsent };
            unsent.insert(Arc::clone(user));
            state.registered = if is_known { Registered::Unknown } else { Registered::No };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(registration: &mut Registration) -> (String, Changes) {
        let changes = registration.take();
        let text =
            |(user, is_online): &(Arc<str>, bool)| format!("{}{user}", if *is_online { '+' } else { '-' });
        let users: Vec<_> = changes.users.iter().map(text).collect();
        (users.join(" "), changes)
    }

    fn sent(registration: &mut Registration) -> String {
        let (text, changes) = changes(registration);
        registration.confirm(changes);
        text
    }

    #[test]
    fn only_changes_are_sent() {
        let mut users = Registration::default();
        let [ann, bob] = ["ann", "bob"].map(Arc::from);
        users.set(&ann, true);
        users.set(&bob, true);
        assert!(!users.is_sent());
        assert_eq!(sent(&mut users), "+ann +bob");
        assert!(users.is_sent());
        users.set(&ann, false);
        users.set(&ann, true);
        assert_eq!(sent(&mut users), "");
        users.set(&ann, false);
        assert_eq!(sent(&mut users), "-ann");
        assert!(users.is_sent() && users.users.len() == 1);
    }

    #[test]
    fn visitors_are_sent_but_not_all() {
        let mut users = Registration::default();
        let visit = |users: &mut Registration, name: &str| {
            for is_online in [true, false, true, false] {
                users.set(&name.into(), is_online);
            }
        };
        visit(&mut users, "ann");
        assert_eq!([sent(&mut users), sent(&mut users)], ["+ann", "-ann"]);
        assert!(users.is_empty() && users.is_sent());
        visit(&mut users, "bob");
        users.set(&"bob".into(), true);
        assert_eq!([sent(&mut users), sent(&mut users)], ["+bob", ""]);
        (0..=MAX_VISITORS).for_each(|number| visit(&mut users, &format!("{number:04}")));
        assert_eq!(users.users.len(), 1 + MAX_VISITORS);
        while !users.is_sent() {
            sent(&mut users);
        }
        assert_eq!((users.users.len(), users.visitors), (1, 0));
    }

    /// The user may have been registered, so the end must be sent.
    #[test]
    fn an_unknown_outcome_is_sent_again() {
        let mut users = Registration::default();
        let ann = "ann".into();
        users.set(&ann, true);
        let (_, lost) = changes(&mut users);
        users.set(&ann, false);
        users.fail(lost);
        assert_eq!(sent(&mut users), "-ann");
        assert!(users.is_empty());
        users.set(&ann, true);
        let (_, in_flight) = changes(&mut users);
        users.set(&ann, false);
        users.confirm(in_flight);
        assert_eq!(sent(&mut users), "-ann");
    }

    #[test]
    fn another_name_gets_all_users() {
        for is_silent in [false, true] {
            let mut users = Registration::default();
            let [ann, bob, carol] = ["ann", "bob", "carol"].map(Arc::from);
            users.set(&ann, true);
            users.set(&bob, true);
            assert_eq!(sent(&mut users), "+ann +bob");
            users.set(&bob, false);
            users.set(&carol, true);
            users.restart(is_silent);
            users.set(&ann, false);
            let expected = match is_silent {
                true => vec!["+ann".to_owned(), "-ann +carol".to_owned()],
                false => vec!["+ann +carol".to_owned(), "-ann".to_owned()],
            };
            let found: Vec<_> =
                std::iter::from_fn(|| Some(sent(&mut users)).filter(|it| !it.is_empty())).collect();
            assert_eq!(found, expected);
            assert!(users.is_sent());
        }
    }

    #[test]
    fn calls_are_bounded() {
        let mut users = Registration::default();
        (0..=MAX_CHANGES).for_each(|number| users.set(&number.to_string().into(), true));
        let (one, other) = (users.take(), users.take());
        assert_eq!((one.users.len(), other.users.len()), (MAX_CHANGES, 1));
    }
}
