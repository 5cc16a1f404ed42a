use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use encke_core::Timestamp;
use parking_lot::Mutex;

use super::state::{Change, Channel};

/// The bytes of all logs together, and in which order they give some back.
///
/// The order is by the age of the oldest message, but is brought up to date only when it is needed: a log stands where
/// its oldest message was when someone last looked. Since messages only get younger from there, the first in the order is
/// the oldest, or is found not to be and put where it belongs.
#[derive(Debug)]
pub(super) struct Budget<S> {
    bytes: AtomicUsize,
    limit: usize,
    /// Locked after a channel, if both are.
    order: Mutex<BTreeMap<Place, Weak<Channel<S>>>>,
}

/// A log's place in the order: when its oldest message was published, and the channel's number, for two may be of one age.
pub(super) type Place = (Timestamp, u64);

impl<S> Budget<S> {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), limit, order: Mutex::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A log has grown or become smaller. Told with its lock held, so that no one sees it shrink before it grew.
    pub(super) fn changed(&self, Change { before, after }: Change) {
        if after >= before {
            self.bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    pub(super) fn list(&self, place: Place, channel: Weak<Channel<S>>) {
        self.order.lock().insert(place, channel);
    }

    pub(super) fn unlist(&self, place: Place) {
        self.order.lock().remove(&place);
    }

    /// The log that may have the oldest message of all, if together they hold too much.
    pub(super) fn oldest_if_over(&self) -> Option<Arc<Channel<S>>> {
        if self.bytes() <= self.limit {
            return None;
        }
        let mut order = self.order.lock();
        while self.bytes() > self.limit {
            let (place, channel) = order.first_key_value()?;
            if let Some(channel) = channel.upgrade() {
                return Some(channel);
            }
            let place = *place;
            order.remove(&place);
        }
        None
    }
}
