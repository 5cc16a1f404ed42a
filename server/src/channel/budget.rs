use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use encke_core::Timestamp;
use parking_lot::Mutex;

use super::state::{Change, Channel};

/// The bytes of all logs together, and in which order they give some back.
///
/// The order is by the age of the oldest message, but is updated only when it is needed: a log's key is the age that its
/// oldest message had at the last look. Oldest messages only get younger, so the first log in the order has the oldest
/// message of all, or turns out not to and gets a new key.
#[derive(Debug)]
pub(super) struct Budget<S> {
    bytes: AtomicUsize,
    limit: usize,
    order: Mutex<BTreeMap<AgeKey, Weak<Channel<S>>>>,
}

/// A log's key in the order: when its oldest message was published, and the channel's number, since two may have one age.
pub(super) type AgeKey = (Timestamp, u64);

impl<S> Budget<S> {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), limit, order: Mutex::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A log has grown or shrunk. Called with the log's lock held, so that nobody sees it shrink before it grew.
    pub(super) fn changed(&self, Change { before, after }: Change) {
        if after >= before {
            self.bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    pub(super) fn list(&self, age_key: AgeKey, channel: Weak<Channel<S>>) {
        self.order.lock().insert(age_key, channel);
    }

    pub(super) fn unlist(&self, age_key: AgeKey) {
        self.order.lock().remove(&age_key);
    }

    /// The log that may have the oldest message of all, if together they hold too much.
    pub(super) fn oldest_if_over(&self) -> Option<Arc<Channel<S>>> {
        if self.bytes() <= self.limit {
            return None;
        }
        let mut order = self.order.lock();
        while self.bytes() > self.limit {
            let (age_key, channel) = order.first_key_value()?;
            if let Some(channel) = channel.upgrade() {
                return Some(channel);
            }
            let age_key = *age_key;
            order.remove(&age_key);
        }
        None
    }
}
