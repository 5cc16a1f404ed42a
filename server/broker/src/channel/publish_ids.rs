//! Ids of recent publishes, for detecting repeated ones.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use encke_core::Timestamp;
use ring::digest::{Context, SHA256};

/// Maximum number of publish ids per channel. The oldest is evicted.
pub(crate) const MAX_PUBLISH_IDS: usize = 1024;

/// Publisher of a message. Publish keys are unique per publisher.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Publisher {
    User(Arc<str>),
    /// An anonymous session, by its number.
    Session(u128),
    /// User of the admin API.
    Operator,
}

impl Publisher {
    /// Textual form for snapshots.
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::User(user) => format!("user {user}"),
            Self::Session(number) => format!("session {number}"),
            Self::Operator => "operator".to_owned(),
        }
    }

    /// Parses the result of [`Self::to_text`].
    pub(super) fn from_text(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            Some(("user", user)) => Some(Self::User(user.into())),
            Some(("session", number)) => number.parse().ok().map(Self::Session),
            _ => (text == "operator").then_some(Self::Operator),
        }
    }
}

/// Identifies a publish within a channel; a repeated publish has the same id.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PublishId {
    pub publisher: Publisher,
    pub key: Box<str>,
}

impl PublishId {
    /// Digest of the id: 43 letters, digits, `-` and `_`, identical in every process and version. Used in
    /// place of the id, because a user name may be long.
    pub fn digest(&self) -> String {
        let mut context = Context::new(&SHA256);
        let publisher = self.publisher.to_text();
        // The length prefix makes the encoding unambiguous.
        context.update(&(publisher.len() as u64).to_le_bytes());
        context.update(publisher.as_bytes());
        context.update(self.key.as_bytes());
        BASE64URL_NOPAD.encode(context.finish().as_ref())
    }
}

/// Memory used per id in addition to its text, in the map and in the queue, in bytes.
const OVERHEAD_BYTES: usize = 2 * size_of::<usize>()
    + size_of::<PublishId>()
    + 2 * (size_of::<(Arc<PublishId>, u64)>() + size_of::<(Timestamp, Arc<PublishId>)>());

/// Ids of a channel's recent publishes, with the offsets of their messages.
#[derive(Debug, Default)]
pub(super) struct RecentPublishIds {
    offsets: HashMap<Arc<PublishId>, u64>,
    /// Publish time of each id, oldest first.
    order: VecDeque<(Timestamp, Arc<PublishId>)>,
    bytes: usize,
}

impl RecentPublishIds {
    /// Offset of the message published with `id`, if known.
    pub(super) fn offset(&self, id: &PublishId) -> Option<u64> {
        self.offsets.get(id).copied()
    }

    pub(super) fn add(&mut self, id: PublishId, at: Timestamp, offset: u64) {
        if self.order.len() == MAX_PUBLISH_IDS {
            self.drop_oldest();
        }
        self.bytes += size(&id);
        let id = Arc::new(id);
        self.order.push_back((at, Arc::clone(&id)));
        self.offsets.insert(id, offset);
    }

    /// All ids, oldest first, with the time and offset of their messages.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&PublishId, Timestamp, u64)> {
        self.order.iter().filter_map(|(at, id)| Some((&**id, *at, self.offset(id)?)))
    }

    /// Drops ids of messages published at or before `cutoff`.
    pub(super) fn drop_up_to(&mut self, cutoff: Timestamp) {
        while self.order.front().is_some_and(|(at, _)| *at <= cutoff) {
            self.drop_oldest();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn drop_oldest(&mut self) {
        if let Some((_, id)) = self.order.pop_front() {
            self.bytes -= size(&id);
            self.offsets.remove(&id);
        }
    }
}

fn size(id: &PublishId) -> usize {
    let user = match &id.publisher {
        Publisher::User(user) => user.len(),
        Publisher::Session(_) | Publisher::Operator => 0,
    };
    OVERHEAD_BYTES + id.key.len() + user
}
