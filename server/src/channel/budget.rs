use std::collections::BTreeMap;
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use encke_core::Timestamp;
use parking_lot::Mutex;

use super::state::{Change, Channel};
use crate::admission::Holder;

/// For so long, a message stays for those who are to read it, if there are others to drop.
const GRACE: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(1) };

/// More than this part of what all logs may hold is much for one maker.
const LARGE_SHARE: usize = 4;

/// Makers that are looked at for older messages.
const MAKERS_LOOKED_AT: usize = 64;

/// The bytes of all logs together, where those that several logs hold count once, and who gives some back when these are too many: whoever has made the logs that hold most, to
/// within a factor of two. What the API has made goes last.
#[derive(Debug)]
pub(super) struct Budget<S> {
    bytes: AtomicIsize,
    limit: usize,
    /// Those whose logs hold something, by their classes. Locked when one of them changes its class.
    by_class: Mutex<ByClass<S>>,
}

type ByClass<S> = BTreeMap<(u32, Holder), Arc<Account<S>>>;

/// What one maker has made. Bytes that several of its logs hold count for each.
///
/// Its logs are in the order of the age of their oldest message, which is updated only when it is needed: a log's key is the age
/// that its oldest message had at the last look. Oldest messages only get younger, so the first log in the order has the oldest
/// message of all, or turns out not to and gets a new key.
#[derive(Debug)]
pub(super) struct Account<S> {
    maker: Holder,
    /// Its channels. Changed under the lock of the table of channels.
    pub(super) channels: AtomicUsize,
    bytes: AtomicUsize,
    /// 0, or one more than the binary logarithm of the bytes: so a publish hardly ever changes it.
    class: AtomicU32,
    order: Mutex<BTreeMap<AgeKey, Weak<Channel<S>>>>,
}

/// A log's key in the order: when its oldest message was published, and the channel's number, since two may have one age.
pub(super) type AgeKey = (Timestamp, u64);

impl<S> Account<S> {
    pub(super) fn new(maker: Holder) -> Arc<Self> {
        Arc::new(Self {
            maker,
            channels: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            class: AtomicU32::new(0),
            order: Mutex::default(),
        })
    }

    pub(super) fn maker(&self) -> &Holder {
        &self.maker
    }

    pub(super) fn list(&self, age_key: AgeKey, channel: Weak<Channel<S>>) {
        self.order.lock().insert(age_key, channel);
    }

    pub(super) fn unlist(&self, age_key: AgeKey) {
        self.order.lock().remove(&age_key);
    }

    /// The log that may have its oldest message, if that was published before `cutoff`.
    fn oldest(&self, cutoff: Timestamp) -> Option<Arc<Channel<S>>> {
        let mut order = self.order.lock();
        while let Some((age_key, channel)) = order.first_key_value() {
            if age_key.0 >= cutoff {
                return None;
            }
            if let Some(channel) = channel.upgrade() {
                return Some(channel);
            }
            let age_key = *age_key;
            order.remove(&age_key);
        }
        None
    }

    fn class_now(&self) -> u32 {
        match self.bytes.load(Ordering::Relaxed).checked_ilog2() {
            None => 0,
            Some(log) => 1 + self.maker.rank(log),
        }
    }
}

impl<S> Budget<S> {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: AtomicIsize::new(0), limit, by_class: Mutex::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        // Two logs may be in the middle of dropping what they hold together.
        usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_class.lock().is_empty()
    }

    /// A log has grown or shrunk. Called with the log's lock held, so that nobody sees it shrink before it grew.
    pub(super) fn changed(&self, account: &Arc<Account<S>>, Change { before, after }: Change) {
        self.bytes.fetch_add(after.added - before.added, Ordering::Relaxed);
        if after.bytes >= before.bytes {
            account.bytes.fetch_add(after.bytes - before.bytes, Ordering::Relaxed);
        } else {
            account.bytes.fetch_sub(before.bytes - after.bytes, Ordering::Relaxed);
        }
        if account.class_now() != account.class.load(Ordering::Relaxed) {
            self.reclass(account);
        }
    }

    /// Looked at again under the lock: another log of the same maker may have changed meanwhile.
    fn reclass(&self, account: &Arc<Account<S>>) {
        let mut by_class = self.by_class.lock();
        let class = account.class_now();
        let before = account.class.swap(class, Ordering::Relaxed);
        by_class.remove(&(before, account.maker.clone()));
        if class > 0 {
            by_class.insert((class, account.maker.clone()), Arc::clone(account));
        }
    }

    /// The log that may have the oldest message of the maker whose turn it is, if all logs together hold too much. Readers
    /// get a moment for what is new: a maker with nothing older is passed over, if others can be found. But not one that holds a
    /// large share: nobody can publish so fast that others lose what they have.
    pub(super) fn oldest_if_over(&self, now: Timestamp) -> Option<Arc<Channel<S>>> {
        if self.bytes() <= self.limit {
            return None;
        }
        let by_class = self.by_class.lock();
        let settled = now.before(GRACE).unwrap_or(Timestamp::from_nanos(0));
        let any = Timestamp::from_nanos(u64::MAX);
        let found = by_class.values().rev().take(MAKERS_LOOKED_AT).find_map(|account| {
            let has_large_share = account.bytes.load(Ordering::Relaxed) > self.limit / LARGE_SHARE;
            account.oldest(if has_large_share { any } else { settled })
        });
        found.or_else(|| by_class.last_key_value()?.1.oldest(any))
    }
}
