use crate::channel::{Member, Present};

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

impl Presence {
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
