//! Queries of a channel's history.

use std::time::Duration;

use encke_core::Timestamp;
use encke_core::message::{ContentKind, JsonString};
use encke_core::session::outbox::LogBounds;

use super::name::ChannelName;
use super::state::Channel;

/// A message returned by a history query.
#[derive(Debug)]
pub struct HistoryMessage {
    pub offset: u64,
    pub age: Duration,
    /// Channel to which the message was published; set only in the history of a pattern.
    pub channel: Option<ChannelName>,
    /// User whose client published the message.
    pub user: Option<String>,
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

impl<S: Copy> Channel<S> {
    /// Returns at most `limit` of the selected messages that are still in the log, oldest first.
    pub fn history(
        &self,
        part: HistoryPart,
        limit: usize,
        now: Timestamp,
    ) -> (LogBounds, Vec<HistoryMessage>) {
        let state = self.state.lock();
        let (from, end) = match part {
            HistoryPart::After(offset) => (offset.saturating_add(1), u64::MAX),
            HistoryPart::Between { after, before } => {
                let end = before.min(state.log.next_offset());
                (end.saturating_sub(limit as u64).max(after.saturating_add(1)), end)
            }
        };
        let messages = state.log.since(from).take_while(|(offset, ..)| *offset < end).take(limit);
        let messages = messages.map(|(offset, at, message)| HistoryMessage {
            offset,
            age: now.since(at),
            channel: self.pattern().and(message.origin()).map(|origin| origin.channel.clone()),
            user: message.encoded().stamp().user.map(JsonString::to_text),
            kind: message.encoded().stamp().kind,
            data: message.encoded().data().as_str().to_owned(),
        });
        (state.log.bounds(), messages.collect())
    }
}
