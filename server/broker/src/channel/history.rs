//! Queries of a channel's history.

use std::time::Duration;

use encke_core::Timestamp;
use encke_core::message::{ContentKind, JsonString, Stamp};
use encke_core::session::outbox::LogBounds;

use super::message::{LogMessage, Origin};
use super::state::Channel;

/// A message returned by a history query.
#[derive(Debug)]
pub struct HistoryMessage {
    pub offset: u64,
    pub age: Duration,
    /// Where the message was published; set only in the history of a pattern.
    pub origin: Option<Origin>,
    /// User whose client published the message.
    pub user: Option<String>,
    /// Time of publication in milliseconds since the Unix epoch; `None` if subscribers do not receive it.
    pub at_ms: Option<u64>,
    pub kind: ContentKind,
    /// JSON text.
    pub data: String,
}

/// Range of messages that a history query selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryPart {
    /// Messages after this offset, oldest first.
    After(u64),
    /// The newest messages between two offsets, both exclusive.
    Between { after: u64, before: u64 },
}

/// Limits of the result of a history query.
#[derive(Clone, Copy, Debug)]
pub struct HistoryLimit {
    /// Maximum number of messages.
    pub messages: usize,
    /// Maximum size of the messages, if there is one. A single message may be larger.
    pub bytes: Option<usize>,
    /// Whether joins and leaves are omitted.
    pub without_notices: bool,
}

/// Limit only by the number of messages.
impl From<usize> for HistoryLimit {
    fn from(messages: usize) -> Self {
        Self { messages, bytes: None, without_notices: false }
    }
}

impl HistoryLimit {
    /// Size of a message besides its data and its user: field names and numbers.
    pub(crate) const FIELD_BYTES: usize = 100;

    /// Returns how many messages of these sizes fit into `bytes`, but at least one.
    pub(crate) fn count_fitting(self, mut sizes: impl Iterator<Item = usize>) -> usize {
        let mut left = self.bytes.unwrap_or(usize::MAX);
        let next = || {
            left = left.checked_sub(sizes.next()? + Self::FIELD_BYTES)?;
            Some(())
        };
        std::iter::from_fn(next).count().max(1)
    }
}

impl<S: Copy> Channel<S> {
    /// Returns the selected messages that are still in the log, oldest first. If they exceed the limit, the
    /// result has those next to the offset that the query names: it can be continued with the others.
    pub fn history(
        &self,
        part: HistoryPart,
        limit: impl Into<HistoryLimit>,
        now: Timestamp,
    ) -> (LogBounds, Vec<HistoryMessage>) {
        let (state, limit) = (self.state.lock(), limit.into());
        let is_wanted = |message: &LogMessage| {
            !limit.without_notices || message.encoded().stamp().kind == ContentKind::Data
        };
        // Begin at the offset that the query names, so that the limits omit the most distant messages.
        let mut selected: Vec<_> = match part {
            HistoryPart::After(offset) => {
                let after = state.log.since(offset.saturating_add(1));
                after.filter(|(_, _, message)| is_wanted(message)).take(limit.messages).collect()
            }
            HistoryPart::Between { after, before } => {
                let LogBounds { first, .. } = state.log.bounds();
                let offsets = after.saturating_add(1).max(first)..before.min(state.log.next_offset());
                let backwards = offsets.rev().filter_map(|offset| state.log.since(offset).next());
                backwards.filter(|(_, _, message)| is_wanted(message)).take(limit.messages).collect()
            }
        };
        selected
            .truncate(limit.count_fitting(selected.iter().map(|(_, _, message)| message.encoded().size())));
        if let HistoryPart::Between { .. } = part {
            selected.reverse();
        }
        let messages = selected.into_iter().map(|(offset, at, message)| {
            let Stamp { kind, user, at_ms } = message.encoded().stamp();
            HistoryMessage {
                offset,
                age: now.since(at),
                origin: self.pattern().and(message.origin()).cloned(),
                user: user.map(JsonString::to_text),
                at_ms,
                kind,
                data: message.encoded().data().as_str().to_owned(),
            }
        });
        (state.log.bounds(), messages.collect())
    }
}
