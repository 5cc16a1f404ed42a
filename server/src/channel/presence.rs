//! Who follows a channel.

use serde::{Deserialize, Serialize};

use super::channels::Channels;
use super::subscribers::Subscriber;

/// What others may see of one that follows a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Its id.
    pub(crate) id: String,
    pub(crate) user: Option<String>,
    pub(crate) phase: MemberPhase,
}

/// Where it is in its life, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(crate) enum MemberPhase {
    Attached,
    /// It may come back.
    Suspended,
    Closed,
}

/// Those who follow a channel on one server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Present {
    /// How many there are.
    pub(crate) total: usize,
    /// Some of them, each with its index: it grows, but not always by one.
    pub(crate) members: Vec<(usize, Member)>,
    /// The index from which on there may be more.
    pub(crate) next: Option<usize>,
}

impl<S: Subscriber> Channels<S> {
    /// Those who follow the channel from this index on, at most `limit`. Nobody, if there is no such channel.
    pub(crate) fn present(&self, name: &str, from: usize, limit: usize) -> Present {
        let Some(channel) = self.get(name) else { return Present::default() };
        let (mut subscribers, total) = channel.subscribers(self.home(), from, limit.saturating_add(1));
        // The index of the first that is not shown.
        let next = subscribers.get(limit).map(|(index, _)| *index);
        subscribers.truncate(limit);
        let members = subscribers.into_iter();
        let members = members
            .filter_map(|(index, subscriber)| Some((index, subscriber.member(self.home(), &channel)?)));
        Present { total, members: members.collect(), next }
    }
}
