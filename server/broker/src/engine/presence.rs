use std::collections::HashMap;

use crate::channel::{Member, MemberPhase, PresencePage};

/// Subscribers of a channel on all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    /// Total number of subscribers.
    pub total: usize,
    /// Subscribers of this page.
    pub members: Vec<Member>,
    /// Cursor of the next page, if there is one.
    pub next_cursor: Option<u64>,
    /// Servers that did not reply.
    pub incomplete: Vec<String>,
}

/// Number of sessions and connections of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserSessions<'a> {
    pub user: &'a str,
    pub sessions: usize,
    /// Number of sessions that are connected or between polls.
    pub connections: usize,
}

impl Presence {
    /// Groups the members by user, in the order of their first appearance. Anonymous sessions are left out.
    pub fn users(&self) -> Vec<UserSessions<'_>> {
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

    /// Presence on a server that shares its channels with no other.
    pub(super) fn single_server(PresencePage { total, members, next }: PresencePage) -> Self {
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
