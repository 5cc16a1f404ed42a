use std::collections::VecDeque;

use encke_core::Timestamp;
use encke_core::encodings::Encodings;
use encke_core::session::outbox::Bounds;

use super::channels::LogLimits;

/// The last messages of a channel, numbered from 1 without holes, oldest first.
#[derive(Debug, Default)]
pub(super) struct Log {
    messages: VecDeque<Stored>,
    /// The number of the newest message there ever was.
    last: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Stored {
    at: Timestamp,
    message: Encodings,
}

/// What a message takes up besides its text.
const OVERHEAD_BYTES: usize = size_of::<Stored>() + 16;

impl Log {
    /// Appends a message, and drops old ones beyond the limits, but never the message itself.
    pub(super) fn append(&mut self, at: Timestamp, message: Encodings, limits: &LogLimits) {
        self.bytes += OVERHEAD_BYTES + message.size();
        self.messages.push_back(Stored { at, message });
        self.last += 1;
        while self.messages.len() > 1 && (self.messages.len() > limits.messages || self.bytes > limits.bytes)
        {
            self.drop_oldest();
        }
    }

    /// The number that the next message gets.
    pub(super) fn next_offset(&self) -> u64 {
        self.last + 1
    }

    pub(super) fn drop_oldest(&mut self) {
        if let Some(oldest) = self.messages.pop_front() {
            self.bytes -= OVERHEAD_BYTES + oldest.message.size();
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
    }

    pub(super) fn clear(&mut self) {
        self.messages = VecDeque::new();
        self.bytes = 0;
    }

    pub(super) fn oldest_at(&self) -> Option<Timestamp> {
        self.messages.front().map(|stored| stored.at)
    }

    pub(super) fn bounds(&self) -> Bounds {
        Bounds { first: self.last - self.messages.len() as u64 + 1, last: self.last }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// The messages from the number `offset` on that are still here.
    pub(super) fn since(&self, offset: u64) -> impl Iterator<Item = (u64, Timestamp, &Encodings)> {
        let first = self.bounds().first;
        let skipped = usize::try_from(offset.saturating_sub(first)).unwrap_or(usize::MAX);
        let from = skipped.min(self.messages.len());
        self.messages
            .range(from..)
            .zip(first + from as u64..)
            .map(|(stored, offset)| (offset, stored.at, &stored.message))
    }
}
