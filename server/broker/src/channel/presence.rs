//! Presence: the subscribers of a channel.

use serde::{Deserialize, Serialize};

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
