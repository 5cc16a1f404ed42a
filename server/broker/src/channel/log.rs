use std::collections::VecDeque;

use encke_core::Timestamp;
use encke_core::session::outbox::LogBounds;

use super::message::LogMessage;
use super::namespaces::LogLimits;
use super::publish_ids::{PublishId, RecentPublishIds};

/// The most recent messages of a channel, oldest first, with consecutive offsets that start at 1.
#[derive(Debug, Default)]
pub(super) struct ChannelLog {
    messages: VecDeque<Stored>,
    /// Number of joins and leaves among the messages.
    joins_and_leaves: usize,
    /// Offset of the newest message ever appended.
    last_offset: u64,
    size: LogSize,
    /// Known publish ids, `None` in most channels. No id is younger than the newest message, so all of them
    /// expire no later than that message.
    keys: Option<Box<RecentPublishIds>>,
}

/// Size of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogSize {
    /// Bytes held, including those shared with other logs.
    pub(super) bytes: usize,
    /// Contribution to the total of all logs, in which shared bytes count once. Negative if this log was the
    /// last to drop bytes that were accounted to another.
    pub(super) added: isize,
}

/// Size of a log before and after a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct SizeChange {
    pub(super) before: LogSize,
    pub(super) after: LogSize,
}

#[derive(Debug)]
struct Stored {
    at: Timestamp,
    message: LogMessage,
}

/// Maximum number of joins and leaves in a log, in addition to its messages. A room whose sessions come and go
/// keeps its history.
pub(crate) const MAX_JOINS_AND_LEAVES: usize = 4096;

/// Memory used per message in addition to its text, in bytes.
const OVERHEAD_BYTES: usize = size_of::<Stored>() + 16;

impl ChannelLog {
    /// Appends a message, then drops old messages beyond the limits, but never the new one. `is_new` is false
    /// if another log already contains this message.
    #[inline]
    pub(super) fn append(&mut self, at: Timestamp, message: LogMessage, is_new: bool, limits: &LogLimits) {
        self.push(at, message, is_new);
        self.enforce_limits(limits);
    }

    /// Like [`append`](Self::append), but without enforcing limits.
    #[inline]
    pub(super) fn push(&mut self, at: Timestamp, message: LogMessage, is_new: bool) {
        let bytes = message.size();
        self.size.bytes += OVERHEAD_BYTES + bytes;
        self.size.added += signed(OVERHEAD_BYTES + if is_new { bytes } else { 0 });
        self.joins_and_leaves += usize::from(message.encoded().is_join_or_leave());
        self.messages.push_back(Stored { at, message });
        self.last_offset += 1;
    }

    /// Creates an empty log whose next message follows offset `last`.
    pub(super) fn starting_after(last: u64) -> Self {
        Self { last_offset: last, ..Self::default() }
    }

    /// Drops old messages beyond the limits.
    #[inline]
    pub(super) fn enforce_limits(&mut self, limits: &LogLimits) {
        while self.messages.len() > 1
            && (self.messages.len() - self.joins_and_leaves > limits.messages
                || self.joins_and_leaves > MAX_JOINS_AND_LEAVES
                || self.size.bytes > limits.bytes)
        {
            self.drop_oldest();
        }
    }

    /// Offset of the next message.
    #[inline]
    pub(super) fn next_offset(&self) -> u64 {
        self.last_offset + 1
    }

    /// Offset of the message published with `id`, if the id is still known and younger than `cutoff`.
    pub(super) fn find_publish(&mut self, id: &PublishId, cutoff: Option<Timestamp>) -> Option<u64> {
        if let Some(cutoff) = cutoff {
            self.drop_keys_up_to(cutoff);
        }
        self.keys.as_ref()?.offset(id)
    }

    /// Records that the newest message was published with `id`.
    pub(super) fn record_publish_id(&mut self, id: PublishId, at: Timestamp) {
        self.record_publish_id_at(id, at, self.last_offset);
    }

    /// Records that the message at `offset`, which may have been dropped, was published with `id`. Ids must
    /// be added in chronological order.
    pub(super) fn record_publish_id_at(&mut self, id: PublishId, at: Timestamp, offset: u64) {
        if !self.messages.is_empty() {
            self.keys.get_or_insert_default().add(id, at, offset);
        }
    }

    /// Known publish ids, oldest first.
    pub(super) fn publish_ids(&self) -> impl Iterator<Item = (&PublishId, Timestamp, u64)> {
        self.keys.iter().flat_map(|keys| keys.iter())
    }

    /// Drops the oldest message and all publish ids that are at least as old, because all logs together
    /// exceed their memory budget.
    pub(super) fn evict_oldest(&mut self) {
        if let Some(at) = self.oldest_at() {
            self.drop_oldest();
            self.drop_keys_up_to(at);
        }
    }

    fn drop_keys_up_to(&mut self, cutoff: Timestamp) {
        if let Some(keys) = &mut self.keys {
            keys.drop_up_to(cutoff);
            if keys.is_empty() || self.messages.is_empty() {
                self.keys = None;
            }
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.messages.pop_front() {
            if self.joins_and_leaves > 0 {
                self.joins_and_leaves -= usize::from(oldest.message.encoded().is_join_or_leave());
            }
            self.size.bytes -= OVERHEAD_BYTES + oldest.message.size();
            self.size.added -= signed(OVERHEAD_BYTES + oldest.message.drop_and_count_freed());
            // Release the memory of a burst, without reallocating for every message.
            if self.messages.capacity() > 32 && self.messages.len() < self.messages.capacity() / 4 {
                self.messages.shrink_to(self.messages.len() * 2);
            }
        }
    }

    /// Drops messages published at or before `cutoff`.
    pub(super) fn drop_up_to(&mut self, cutoff: Timestamp) {
        while self.oldest_at().is_some_and(|at| at <= cutoff) {
            self.drop_oldest();
        }
        self.drop_keys_up_to(cutoff);
    }

    /// Drops all messages and advances the log, so that the next message follows offset `last`.
    pub(super) fn skip_to(&mut self, last: u64) {
        self.clear();
        self.last_offset = self.last_offset.max(last);
    }

    pub(super) fn clear(&mut self) {
        while !self.messages.is_empty() {
            self.drop_oldest();
        }
        self.messages = VecDeque::new();
        self.keys = None;
    }

    #[inline]
    pub(super) fn oldest_at(&self) -> Option<Timestamp> {
        self.messages.front().map(|stored| stored.at)
    }

    #[inline]
    pub(super) fn bounds(&self) -> LogBounds {
        LogBounds { first: self.last_offset - self.messages.len() as u64 + 1, last: self.last_offset }
    }

    /// Bytes held, not counting shared messages that other logs have already added to `seen`.
    #[cfg(feature = "simulation")]
    pub(super) fn count_bytes(
        &self,
        seen: &mut std::collections::HashSet<*const super::message::SharedMessage>,
    ) -> usize {
        let bytes = self.messages.iter().map(|stored| match &stored.message {
            LogMessage::Shared(shared) if !seen.insert(std::sync::Arc::as_ptr(shared)) => 0,
            message => message.size(),
        });
        bytes.map(|bytes| OVERHEAD_BYTES + bytes).sum::<usize>() + self.keys_bytes()
    }

    #[inline]
    pub(super) fn size(&self) -> LogSize {
        let keys = self.keys_bytes();
        LogSize { bytes: self.size.bytes + keys, added: self.size.added + signed(keys) }
    }

    #[cfg(test)]
    pub(super) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    #[inline]
    fn keys_bytes(&self) -> usize {
        self.keys.as_ref().map_or(0, |keys| keys.bytes())
    }

    /// Number of messages published after `at`.
    pub(super) fn count_published_after(&self, at: Timestamp) -> usize {
        self.messages.len() - self.messages.partition_point(|stored| stored.at <= at)
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Messages still in the log, from `offset` on, each with its offset and publish time.
    #[inline]
    pub(super) fn since(&self, offset: u64) -> impl Iterator<Item = (u64, Timestamp, &LogMessage)> {
        let first = self.bounds().first;
        let skipped = usize::try_from(offset.saturating_sub(first)).unwrap_or(usize::MAX);
        let from = skipped.min(self.messages.len());
        self.messages
            .range(from..)
            .zip(first + from as u64..)
            .map(|(stored, offset)| (offset, stored.at, &stored.message))
    }
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).expect("sizes of objects in memory fit in isize")
}

#[cfg(test)]
mod tests {
    use encke_core::dialect::json::EncodedMessage;
    use encke_core::message::{CompactJson, Content, ContentKind, Message};

    use super::*;

    fn append(log: &mut ChannelLog, content: &Content<'_>, limits: &LogLimits) {
        let offset = log.next_offset();
        let message = Message { channel: "a", epoch: None, offset, at_ms: None, content };
        log.append(Timestamp::from_nanos(0), LogMessage::Own(EncodedMessage::new(&message)), true, limits);
    }

    #[test]
    fn joins_and_leaves_do_not_displace_messages() {
        let limits =
            LogLimits { messages: 2, bytes: 1 << 20, age: None, total_bytes: usize::MAX, kept_positions: 0 };
        let data = CompactJson::parse("1").expect("valid JSON").into();
        let join = Content::join_or_leave(ContentKind::Joined, "s_1", Some("ann"));
        let mut log = ChannelLog::default();
        for content in [&data, &join, &data, &join] {
            append(&mut log, content, &limits);
        }
        assert_eq!(log.bounds(), LogBounds { first: 1, last: 4 });
        append(&mut log, &data, &limits);
        assert_eq!(log.bounds(), LogBounds { first: 2, last: 5 }, "the oldest of three messages is dropped");
        (0..MAX_JOINS_AND_LEAVES - 2).for_each(|_| append(&mut log, &join, &limits));
        assert_eq!(log.bounds().first, 2);
        append(&mut log, &join, &limits);
        assert_eq!(log.bounds().first, 3, "the oldest join is dropped");
        append(&mut log, &join, &limits);
        assert_eq!(log.bounds().first, 5, "so is a message before the next join");
        log.clear();
        assert_eq!(log.joins_and_leaves, 0);
    }
}
