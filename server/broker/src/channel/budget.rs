use std::collections::BTreeMap;
use std::sync::atomic::{AtomicIsize, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use encke_base::locks::{Mutex, level};
use encke_base::quota::QuotaOwner;
use encke_core::Timestamp;

use super::log::SizeChange;

/// How long a new message is protected from eviction, provided that older messages can be dropped instead.
const GRACE: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(1) };

/// A creator has a large share if it uses more than the budget divided by this number.
const LARGE_SHARE_DIVISOR: usize = 4;

/// Maximum number of creators searched for older messages.
const MAX_CREATORS_EXAMINED: usize = 64;

/// Memory budget for all logs. Bytes shared by several logs count once. When the budget is exceeded, messages
/// are dropped from the logs of the creator that uses the most memory; amounts that differ by less than a
/// factor of two may count as equal. Logs created by the admin API lose messages last. `L` is the type of a
/// log.
#[derive(Debug)]
pub(super) struct Budget<L> {
    bytes: AtomicIsize,
    limit: usize,
    /// Accounts that use any memory, by size class. Locked when an account changes its class.
    by_class: Mutex<ByClass<L>, level::LogBudget>,
}

type ByClass<L> = BTreeMap<(u32, QuotaOwner), Arc<CreatorAccount<L>>>;

/// Account of one creator: its channels and the memory that their logs use. Bytes shared by several of its
/// logs count for each of them.
///
/// The logs are sorted by the age of their oldest message. The order is updated lazily: the key of a log
/// refers to the message that was its oldest when the log was last examined. The oldest message of a log is
/// only ever replaced by a younger one. Therefore, the first log in the order either has the oldest message
/// of all, or gets a new key.
#[derive(Debug)]
pub(super) struct CreatorAccount<L> {
    creator: QuotaOwner,
    /// Number of channels. Changed only while the channel table is locked.
    pub(super) channels: AtomicUsize,
    bytes: AtomicUsize,
    /// Size class: 0 if no memory is used, otherwise one more than the binary logarithm of the bytes (1 for
    /// the operator). Coarse, so that a publish rarely changes it.
    class: AtomicU32,
    order: Mutex<BTreeMap<AgeKey, Weak<L>>, level::LogAges>,
}

/// Sort key of a log: the publish time of its oldest message, and the channel's number, which makes the key
/// unique.
pub(super) type AgeKey = (Timestamp, u64);

impl<L> CreatorAccount<L> {
    pub(super) fn new(creator: QuotaOwner) -> Arc<Self> {
        Arc::new(Self {
            creator,
            channels: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            class: AtomicU32::new(0),
            order: Mutex::default(),
        })
    }

    pub(super) fn creator(&self) -> &QuotaOwner {
        &self.creator
    }

    pub(super) fn list(&self, age_key: AgeKey, log: Weak<L>) {
        self.order.lock().insert(age_key, log);
    }

    pub(super) fn unlist(&self, age_key: AgeKey) {
        self.order.lock().remove(&age_key);
    }

    /// Returns the log that may contain the account's oldest message, if that message was published before
    /// `cutoff`.
    fn oldest(&self, cutoff: Timestamp) -> Option<Arc<L>> {
        let mut order = self.order.lock();
        while let Some((age_key, log)) = order.first_key_value() {
            if age_key.0 >= cutoff {
                return None;
            }
            if let Some(log) = log.upgrade() {
                return Some(log);
            }
            let age_key = *age_key;
            order.remove(&age_key);
        }
        None
    }

    fn class_now(&self) -> u32 {
        match self.bytes.load(Ordering::Relaxed).checked_ilog2() {
            None => 0,
            Some(log) => 1 + self.creator.eviction_rank(log),
        }
    }
}

impl<L> Budget<L> {
    pub(super) fn new(limit: usize) -> Self {
        Self { bytes: AtomicIsize::new(0), limit, by_class: Mutex::default() }
    }

    pub(super) fn bytes(&self) -> usize {
        // The sum can be negative for a short time, while two logs drop bytes that they share.
        usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(0)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.by_class.lock().is_empty()
    }

    /// Updates the sizes after a log has grown or shrunk. Must be called while the log is locked, so that the
    /// total never reflects a shrink before the growth that preceded it.
    pub(super) fn update(&self, account: &Arc<CreatorAccount<L>>, SizeChange { before, after }: SizeChange) {
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

    /// Moves an account to its current size class. The class is recomputed while holding the lock, since
    /// another log of the same creator may have changed in the meantime.
    fn reclass(&self, account: &Arc<CreatorAccount<L>>) {
        let mut by_class = self.by_class.lock();
        let class = account.class_now();
        let before = account.class.swap(class, Ordering::Relaxed);
        by_class.remove(&(before, account.creator.clone()));
        if class > 0 {
            by_class.insert((class, account.creator.clone()), Arc::clone(account));
        }
    }

    /// Returns the next log to drop a message from, if all logs together exceed the budget: the one that may
    /// contain the oldest message of the largest creator.
    ///
    /// Readers get some time to fetch new messages: a creator without older messages is skipped if there are
    /// others, unless it has a large share. A fast publisher can thus not displace everyone else's messages.
    pub(super) fn log_to_trim(&self, now: Timestamp) -> Option<Arc<L>> {
        if self.bytes() <= self.limit {
            return None;
        }
        let by_class = self.by_class.lock();
        let settled = now.before(GRACE).unwrap_or(Timestamp::from_nanos(0));
        let any = Timestamp::from_nanos(u64::MAX);
        let found = by_class.values().rev().take(MAX_CREATORS_EXAMINED).find_map(|account| {
            let has_large_share = account.bytes.load(Ordering::Relaxed) > self.limit / LARGE_SHARE_DIVISOR;
            account.oldest(if has_large_share { any } else { settled })
        });
        found.or_else(|| by_class.last_key_value()?.1.oldest(any))
    }
}
