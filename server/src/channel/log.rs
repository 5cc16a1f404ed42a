use std::collections::VecDeque;

use encke_core::Timestamp;
use encke_core::session::outbox::Bounds;

use super::channels::LogLimits;
use super::keys::{Keys, PublishId};
use super::message::LogMessage;

/// The last messages of a channel, numbered from 1 without holes, oldest first.
#[derive(Debug, Default)]
pub(super) struct Log {
    messages: VecDeque<Stored>,
    /// The number of the newest message there ever was.
    last: u64,
    /// What the messages take up.
    size: LogSize,
    /// Of publishes that had one: most channels have none. Each is younger than some message, so that they go at the latest when
    /// the last message does.
    keys: Option<Box<Keys>>,
}

/// What a log takes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogSize {
    /// What it holds, alone or together with others, in bytes.
    pub(super) bytes: usize,
    /// What it adds to that of all logs, where bytes that several hold count once: below zero if it was the last to drop what another
    /// had brought.
    pub(super) added: isize,
}

#[derive(Debug)]
struct Stored {
    at: Timestamp,
    message: LogMessage,
}

/// What a message takes up besides its text.
const OVERHEAD_BYTES: usize = size_of::<Stored>() + 16;

impl Log {
    /// Appends a message, and drops old ones beyond the limits, but never the message itself. `is_new` is whether no other log has it
    /// yet.
    pub(super) fn append(&mut self, at: Timestamp, message: LogMessage, is_new: bool, limits: &LogLimits) {
        self.push(at, message, is_new);
        self.keep_to(limits);
    }

    /// The same without limits.
    pub(super) fn push(&mut self, at: Timestamp, message: LogMessage, is_new: bool) {
        let bytes = message.size();
        self.size.bytes += OVERHEAD_BYTES + bytes;
        self.size.added += signed(OVERHEAD_BYTES + if is_new { bytes } else { 0 });
        self.messages.push_back(Stored { at, message });
        self.last += 1;
    }

    /// An empty log, which goes on after the message `last`.
    pub(super) fn after(last: u64) -> Self {
        Self { last, ..Self::default() }
    }

    /// Drops old messages beyond the limits.
    pub(super) fn keep_to(&mut self, limits: &LogLimits) {
        while self.messages.len() > 1
            && (self.messages.len() > limits.messages || self.size.bytes > limits.bytes)
        {
            self.drop_oldest();
        }
    }

    /// The number that the next message gets.
    pub(super) fn next_offset(&self) -> u64 {
        self.last + 1
    }

    /// The message that was published under this, if it was, and not longer ago than `cutoff`.
    pub(super) fn published_as(&mut self, id: &PublishId, cutoff: Option<Timestamp>) -> Option<u64> {
        if let Some(cutoff) = cutoff {
            self.drop_keys_up_to(cutoff);
        }
        self.keys.as_ref()?.offset(id)
    }

    /// The newest message was published under this.
    pub(super) fn remember(&mut self, id: PublishId, at: Timestamp) {
        self.remember_as(id, at, self.last);
    }

    /// This message, which may be there no more, was published under this: after all that are known.
    pub(super) fn remember_as(&mut self, id: PublishId, at: Timestamp, offset: u64) {
        if !self.messages.is_empty() {
            self.keys.get_or_insert_default().add(id, at, offset);
        }
    }

    /// What is known, the oldest first.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&PublishId, Timestamp, u64)> {
        self.keys.iter().flat_map(|keys| keys.iter())
    }

    /// Gives up the oldest message, and all that is as old: there is not enough memory for all logs together.
    pub(super) fn give_up_oldest(&mut self) {
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
            self.size.bytes -= OVERHEAD_BYTES + oldest.message.size();
            self.size.added -= signed(OVERHEAD_BYTES + oldest.message.size_if_last());
            // A burst's memory is given back, but not at every message.
            if self.messages.capacity() > 32 && self.messages.len() < self.messages.capacity() / 4 {
                self.messages.shrink_to(self.messages.len() * 2);
            }
        }
    }

    /// Drops what was published at `cutoff` or before.
    pub(super) fn drop_up_to(&mut self, cutoff: Timestamp) {
        while self.oldest_at().is_some_and(|at| at <= cutoff) {
            self.drop_oldest();
        }
        self.drop_keys_up_to(cutoff);
    }

    /// Drops everything. The next message has the number after `last`.
    pub(super) fn skip_to(&mut self, last: u64) {
        self.clear();
        self.last = self.last.max(last);
    }

    pub(super) fn clear(&mut self) {
        while !self.messages.is_empty() {
            self.drop_oldest();
        }
        self.messages = VecDeque::new();
        self.keys = None;
    }

    pub(super) fn oldest_at(&self) -> Option<Timestamp> {
        self.messages.front().map(|stored| stored.at)
    }

    pub(super) fn bounds(&self) -> Bounds {
        Bounds { first: self.last - self.messages.len() as u64 + 1, last: self.last }
    }

    /// What it holds besides what was `seen` in other logs, in bytes.
    #[cfg(feature = "simulation")]
    pub(super) fn count(
        &self,
        seen: &mut std::collections::HashSet<*const super::message::SharedMessage>,
    ) -> usize {
        let bytes = self.messages.iter().map(|stored| match &stored.message {
            LogMessage::Shared(shared) if !seen.insert(std::sync::Arc::as_ptr(shared)) => 0,
            message => message.size(),
        });
        bytes.map(|bytes| OVERHEAD_BYTES + bytes).sum::<usize>() + self.keys_bytes()
    }

    pub(super) fn size(&self) -> LogSize {
        let keys = self.keys_bytes();
        LogSize { bytes: self.size.bytes + keys, added: self.size.added + signed(keys) }
    }

    #[cfg(test)]
    pub(super) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    fn keys_bytes(&self) -> usize {
        self.keys.as_ref().map_or(0, |keys| keys.bytes())
    }

    /// How many messages were published after that.
    pub(super) fn published_after(&self, at: Timestamp) -> usize {
        self.messages.len() - self.messages.partition_point(|stored| stored.at <= at)
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// The messages from the number `offset` on that are still here.
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
    isize::try_from(bytes).expect("nothing in memory is larger")
}
