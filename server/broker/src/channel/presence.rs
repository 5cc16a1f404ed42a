//! Presence: the subscribers of a channel.

use serde::{Deserialize, Serialize};

use super::channels::Channels;
use super::subscribers::Subscriber;

/// Public information about a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Session id.
    pub id: String,
    pub user: Option<String>,
    pub phase: MemberPhase,
}

/// Public form of a session's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum MemberPhase {
    Attached,
    /// The session has lost its connection and may resume.
    Suspended,
    Closed,
}

/// One page of a channel's subscribers on a single server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PresencePage {
    /// Total number of subscribers.
    pub total: usize,
    /// Subscribers of this page, each with its index. Indices increase, but not always by one.
    pub members: Vec<(usize, Member)>,
    /// Index at which the next page starts, if there may be more.
    pub next: Option<usize>,
}

impl<S: Subscriber> Channels<S> {
    /// Returns at most `limit` subscribers from index `from` on; an empty page if the channel does not exist.
    pub fn presence_page(&self, name: &str, from: usize, limit: usize) -> PresencePage {
        let Some(channel) = self.get(name) else { return PresencePage::default() };
        let (mut subscribers, total) = channel.subscribers(self.registry(), from, limit.saturating_add(1));
        // One extra subscriber was requested; its index starts the next page.
        let next = subscribers.get(limit).map(|(index, _)| *index);
        subscribers.truncate(limit);
        let members = subscribers.into_iter();
        let members = members
            .filter_map(|(index, subscriber)| Some((index, subscriber.member(self.registry(), &channel)?)));
        PresencePage { total, members: members.collect(), next }
    }
}
