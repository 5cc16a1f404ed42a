use std::sync::{Arc, Weak};

use super::delivery::{Delivery, TracedLog};
use super::publish::PublishTrace;

/// Traced messages of a log that some subscribers have not received yet. Usually empty. Guarded by the log's
/// lock.
#[derive(Debug, Default)]
pub(crate) struct TracedMessages(Vec<TracedMessage>);

/// A traced message. Messages are ordered by offset.
#[derive(Debug)]
struct TracedMessage {
    offset: u64,
    /// Whether a sweep has ended since the append.
    is_swept: bool,
    /// Index of this log among the logs that contain the message.
    log_index: usize,
    delivery: Arc<Delivery>,
}

impl TracedMessages {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records that a message was appended to the log.
    pub(crate) fn appended(
        &mut self,
        publish: &PublishTrace,
        (number, offset): (u64, u64),
        log: impl FnOnce() -> Weak<dyn TracedLog>,
        subscribers: impl Iterator<Item = usize>,
    ) {
        let Some(delivery) = publish.delivery() else { return };
        if let Some(log_index) = delivery.add_log(number, log(), subscribers) {
            self.0.push(TracedMessage { offset, is_swept: false, log_index, delivery: Arc::clone(delivery) });
        }
    }

    /// Traced messages in the range of `count` messages from `offset`.
    pub(super) fn of(&self, offset: u64, count: usize) -> impl Iterator<Item = (usize, &Arc<Delivery>)> {
        let end = offset.saturating_add(count as u64);
        // Use a binary search: while one connection does not read, there may be many messages.
        let first = self.0.partition_point(|message| message.offset < offset);
        let of_these = self.0[first..].iter().take_while(move |message| message.offset < end);
        of_these.map(|message| (message.log_index, &message.delivery))
    }

    /// Records the end of a sweep. Returns the messages appended since the previous one ended.
    pub(crate) fn end_sweep(&mut self) -> Vec<(usize, Arc<Delivery>)> {
        let new = self.0.iter_mut().rev().take_while(|message| !message.is_swept);
        new.map(|message| {
            message.is_swept = true;
            (message.log_index, Arc::clone(&message.delivery))
        })
        .collect()
    }

    /// All traced messages.
    pub(crate) fn all(&self) -> Vec<(usize, Arc<Delivery>)> {
        self.0.iter().map(|message| (message.log_index, Arc::clone(&message.delivery))).collect()
    }

    pub(crate) fn forget(&mut self, delivery: &Arc<Delivery>) {
        self.0.retain(|message| !Arc::ptr_eq(&message.delivery, delivery));
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    /// Prepares to report that a subscriber has unsubscribed. The report is made later, without the log's
    /// lock.
    pub(crate) fn departure(&self, index: usize) -> Departure {
        Departure { index, of: self.all() }
    }
}

/// Report that a subscriber has unsubscribed.
#[derive(Debug)]
pub(crate) struct Departure {
    index: usize,
    of: Vec<(usize, Arc<Delivery>)>,
}

impl Departure {
    /// Reports to the deliveries. No lock of a log may be held.
    pub(crate) fn report(self) {
        for (log_index, delivery) in self.of {
            delivery.exclude(log_index, self.index);
        }
    }
}
