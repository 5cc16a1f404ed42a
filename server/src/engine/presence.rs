use std::collections::HashMap;

use crate::channel::{Member, MemberPhase, Present};

/// Those who follow a channel, on all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Presence {
    /// How many there are.
    pub(crate) total: usize,
    /// Some of them.
    pub(crate) members: Vec<Member>,
    /// Where those begin that are not shown.
    pub(crate) next_cursor: Option<u64>,
    /// Servers that have not said who there is.
    pub(crate) incomplete: Vec<String>,
}

/// Sessions of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UserSessions<'a> {
    pub(crate) user: &'a str,
    /// How many there are.
    pub(crate) sessions: usize,
    /// How many of these have a connection, or are between two polls.
    pub(crate) connections: usize,
}

impl Presence {
    /// The users of the members, in the order in which they come first. Those of nobody by name are left out.
    pub(crate) fn users(&self) -> Vec<UserSessions<'_>> {
        let mut users: Vec<UserSessions<'_>> = Vec::new();
        let mut places = HashMap::new();
        for Member { user, phase, .. } in &self.members {
            let Some(user) = user.as_deref() else { continue };
            let place = *places.entry(user).or_insert(users.len());
            if place == users.len() {
                users.push(UserSessions { user, sessions: 0, connections: 0 });
            }
            users[place].sessions += 1;
            users[place].connections += usize::from(*phase == MemberPhase::Attached);
        }
        users
    }

    /// Where there is one server.
    pub(super) fn here(Present { total, members, next }: Present) -> Self {
        Self {
            total,
            members: members.into_iter().map(|(_, member)| member).collect(),
            next_cursor: next.and_then(|next| u64::try_from(next).ok()),
            incomplete: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_their_sessions_and_connections() {
        use MemberPhase::{Attached, Closed, Suspended};
        let members = [
            (Some("bob"), Suspended),
            (None, Attached),
            (Some("alice"), Attached),
            (Some("bob"), Attached),
            (Some("alice"), Attached),
            (Some("carol"), Closed),
            (Some("bob"), Suspended),
        ];
        let member = |(user, phase): (Option<&str>, _)| Member {
            id: String::new(),
            user: user.map(ToOwned::to_owned),
            phase,
        };
        let presence = Presence { members: members.map(member).into(), ..Presence::default() };
        let users = presence.users();
        let users: Vec<_> = users.iter().map(|it| (it.user, it.sessions, it.connections)).collect();
        assert_eq!(users, [("bob", 3, 1), ("alice", 2, 2), ("carol", 1, 0)]);
        assert_eq!(Presence::default().users(), []);
    }
}
