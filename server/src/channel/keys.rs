//! Publishes that are known again when they are repeated.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use encke_core::Timestamp;
use ring::digest::{Context, SHA256};

/// How many a channel knows. The oldest gives way.
pub(crate) const MOST_KEYS: usize = 1024;

/// The publisher of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Publisher {
    User(Arc<str>),
    /// A session of nobody by name, by its number.
    Session(u128),
    /// The user of the admin API.
    Operator,
}

impl Publisher {
    /// To be written down.
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::User(user) => format!("user {user}"),
            Self::Session(number) => format!("session {number}"),
            Self::Operator => "operator".to_owned(),
        }
    }

    /// The reverse of [`Self::to_text`].
    pub(super) fn of_text(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            Some(("user", user)) => Some(Self::User(user.into())),
            Some(("session", number)) => number.parse().ok().map(Self::Session),
            _ => (text == "operator").then_some(Self::Operator),
        }
    }
}

/// What a publish has in common with its repetitions, within a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PublishId {
    pub(crate) publisher: Publisher,
    pub(crate) key: Box<str>,
}

impl PublishId {
    /// Text of 43 letters, digits, `-` and `_` that stands for it, the same everywhere and in every version: a digest, since a user's name may
    /// be long.
    pub(crate) fn digest(&self) -> String {
        let mut context = Context::new(&SHA256);
        let publisher = self.publisher.to_text();
        // Its length: no two of them make the same text.
        context.update(&(publisher.len() as u64).to_le_bytes());
        context.update(publisher.as_bytes());
        context.update(self.key.as_bytes());
        BASE64URL_NOPAD.encode(context.finish().as_ref())
    }
}

/// What one takes up besides its text, here and in the order of ages.
const OVERHEAD_BYTES: usize = 2 * size_of::<usize>()
    + size_of::<PublishId>()
    + 2 * (size_of::<(Arc<PublishId>, u64)>() + size_of::<(Timestamp, Arc<PublishId>)>());

/// The offsets of those that a channel knows.
#[derive(Debug, Default)]
pub(super) struct Keys {
    offsets: HashMap<Arc<PublishId>, u64>,
    /// When each was published, the oldest first.
    order: VecDeque<(Timestamp, Arc<PublishId>)>,
    bytes: usize,
}

impl Keys {
    /// The message that was published under this, if it is known.
    pub(super) fn offset(&self, id: &PublishId) -> Option<u64> {
        self.offsets.get(id).copied()
    }

    /// A new one.
    pub(super) fn add(&mut self, id: PublishId, at: Timestamp, offset: u64) {
        if self.order.len() == MOST_KEYS {
            self.drop_oldest();
        }
        self.bytes += size(&id);
        let id = Arc::new(id);
        self.order.push_back((at, Arc::clone(&id)));
        self.offsets.insert(id, offset);
    }

    /// All of them, the oldest first: when and as which message they were published.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&PublishId, Timestamp, u64)> {
        self.order.iter().filter_map(|(at, id)| Some((&**id, *at, self.offset(id)?)))
    }

    /// Drops those that were published at `cutoff` or before.
    pub(super) fn drop_up_to(&mut self, cutoff: Timestamp) {
        while self.order.front().is_some_and(|(at, _)| *at <= cutoff) {
            self.drop_oldest();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// What they take up.
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
