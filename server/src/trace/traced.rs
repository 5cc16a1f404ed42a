use std::sync::{Arc, Weak};

use super::delivery::{Delivery, TracedLog};
use super::publish::Publish;

/// The messages of a log that are traced, and not yet with all that follow it: none, as a rule. The log's lock guards them.
#[derive(Debug, Default)]
pub(crate) struct Traced(Vec<TracedMessage>);

/// They are in the order of their offsets.
#[derive(Debug)]
struct TracedMessage {
    offset: u64,
    /// A sweep has ended since it is there.
    is_swept: bool,
    /// Which of the logs that have the message this one is.
    part: usize,
    delivery: Arc<Delivery>,
}

impl Traced {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The log has this message now.
    pub(crate) fn appended(
        &mut self,
        publish: &Publish,
        (number, offset): (u64, u64),
        log: impl FnOnce() -> Weak<dyn TracedLog>,
        followers: impl Iterator<Item = usize>,
    ) {
        let Some(delivery) = publish.delivery() else { return };
        if let Some(part) = delivery.begins_in(number, log(), followers) {
            self.0.push(TracedMessage { offset, is_swept: false, part, delivery: Arc::clone(delivery) });
        }
    }

    /// Those among `count` messages from this one on.
    pub(super) fn of(&self, offset: u64, count: usize) -> impl Iterator<Item = (usize, &Arc<Delivery>)> {
        let end = offset.saturating_add(count as u64);
        // Not one after the other: while one connection does not read, they are many.
        let first = self.0.partition_point(|message| message.offset < offset);
        let of_these = self.0[first..].iter().take_while(move |message| message.offset < end);
        of_these.map(|message| (message.part, &message.delivery))
    }

    /// A sweep is over. Returns those that no sweep was over for before.
    pub(crate) fn swept(&mut self) -> Vec<(usize, Arc<Delivery>)> {
        let new = self.0.iter_mut().rev().take_while(|message| !message.is_swept);
        new.map(|message| {
            message.is_swept = true;
            (message.part, Arc::clone(&message.delivery))
        })
        .collect()
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<(usize, Arc<Delivery>)> {
        self.0.iter().map(|message| (message.part, Arc::clone(&message.delivery))).collect()
    }

    pub(crate) fn forget(&mut self, delivery: &Arc<Delivery>) {
        self.0.retain(|message| !Arc::ptr_eq(&message.delivery, delivery));
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    /// The follower with this index has left. They are told that later, without the log's lock.
    pub(crate) fn left(&self, index: usize) -> Left {
        Left { index, of: self.all() }
    }
}

/// Whoever has left is not awaited.
#[derive(Debug)]
pub(crate) struct Left {
    index: usize,
    of: Vec<(usize, Arc<Delivery>)>,
}

impl Left {
    /// No lock of a log is held.
    pub(crate) fn tell(self) {
        for (part, delivery) in self.of {
            delivery.is_gone(part, self.index);
        }
    }
}
