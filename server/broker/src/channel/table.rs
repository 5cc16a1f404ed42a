//! The table of all channels, and the limits on their number.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use encke_base::locks::{RwLock, level};
use encke_base::quota::QuotaOwner;
use encke_timeouts::{OwnerKey, TimerCell, TimerOwner, TimerOwners};

use super::budget::CreatorAccount;
use super::epoch::LogEpoch;
use super::name::ChannelName;
use super::occupancy::Occupancy;
use super::pattern::for_each_matching;
use super::state::Channel;

/// The table of all channels.
#[derive(Debug)]
pub(super) struct ChannelTable<S> {
    named: RwLock<NamedChannels<S>, level::Table>,
    /// Maps the keys in timers to their channels.
    owners: TimerOwners<Channel<S>>,
    /// Reports first and last subscriptions; shared with every channel.
    pub(super) occupancy: Option<Arc<Occupancy>>,
    limit: usize,
    limit_per_creator: usize,
    numbers: AtomicU64,
    /// Number of patterns in the table. While it is zero, a publish skips the search for matching patterns.
    patterns: AtomicUsize,
    /// Number of direct-message channels. There are at most two for each session, and they do not count
    /// towards the channel limit.
    direct: AtomicUsize,
}

#[derive(Debug)]
struct NamedChannels<S> {
    channels: BTreeMap<ChannelName, Arc<Channel<S>>>,
    /// Accounts of all creators that have channels.
    accounts: HashMap<QuotaOwner, Arc<CreatorAccount<Channel<S>>>>,
}

impl<S> Default for NamedChannels<S> {
    fn default() -> Self {
        Self { channels: BTreeMap::new(), accounts: HashMap::new() }
    }
}

/// Error returned when a channel limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooManyChannels {
    #[error("channel limit reached (limits.max_channels = {limit})")]
    Server { limit: usize },
    #[error("channel limit per user reached (limits.max_channels_per_user = {limit})")]
    User { limit: usize },
    #[error("channel limit per address reached ({limit}, half of limits.max_channels)")]
    Address { limit: usize },
}

impl<S: Copy> ChannelTable<S> {
    /// Creates an empty table for at most `limit` channels. One user can create at most `limit_per_creator`
    /// of them, and one address at most half.
    pub(super) fn new(limit: usize, limit_per_creator: usize) -> Self {
        Self {
            named: RwLock::default(),
            owners: TimerOwners::new(TimerOwner::Log),
            occupancy: None,
            limit,
            limit_per_creator,
            numbers: AtomicU64::new(0),
            patterns: AtomicUsize::new(0),
            direct: AtomicUsize::new(0),
        }
    }

    /// Returns the channel with this name, if it exists.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Channel<S>>> {
        self.named.read().channels.get(name).cloned()
    }

    /// Returns the existing patterns that match the channel, always in the same order.
    pub(super) fn patterns_of(&self, name: &ChannelName) -> Vec<Arc<Channel<S>>> {
        let mut patterns = Vec::new();
        debug_assert!(!name.is_pattern(), "patterns cannot be published to");
        if self.patterns.load(Ordering::Acquire) > 0 {
            let named = self.named.read();
            for_each_matching(name.as_str(), |pattern| patterns.extend(named.channels.get(pattern).cloned()));
        }
        patterns
    }

    /// Returns at most `limit` public channels whose names follow `cursor`, sorted by name.
    pub(super) fn public_after(&self, cursor: Option<&str>, limit: usize) -> Vec<Arc<Channel<S>>> {
        // Skip direct-message channels (`$...`) without scanning them: all of their names are between these
        // two.
        let (direct, beyond) = ("$", "%");
        let from = cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let later =
            if cursor.is_some_and(|cursor| cursor >= beyond) { from } else { Bound::Included(beyond) };
        let named = self.named.read();
        let before = named.channels.range::<str, _>((Bound::Unbounded, Bound::Excluded(direct)));
        let before = before.filter(|(name, _)| cursor.is_none_or(|cursor| name.as_str() > cursor));
        let after = named.channels.range::<str, _>((later, Bound::Unbounded));
        before.chain(after).map(|(_, channel)| Arc::clone(channel)).take(limit).collect()
    }

    /// Returns at most `limit` channels, public or not, whose names follow `cursor`, sorted by name.
    pub(super) fn after(&self, cursor: Option<&str>, limit: usize) -> Vec<Arc<Channel<S>>> {
        let range = (cursor.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let named = self.named.read();
        named.channels.range::<str, _>(range).map(|(_, channel)| Arc::clone(channel)).take(limit).collect()
    }

    /// Number of channels.
    pub(super) fn len(&self) -> usize {
        self.named.read().channels.len()
    }

    /// Number of direct-message channels.
    pub(super) fn direct_len(&self) -> usize {
        self.direct.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(super) fn has_no_accounts(&self) -> bool {
        self.named.read().accounts.is_empty()
    }

    /// Returns the channel with this name, or creates it with the given epoch.
    pub(super) fn get_or_create(
        &self,
        name: &ChannelName,
        creator: &QuotaOwner,
        epoch: impl Fn() -> LogEpoch,
    ) -> Result<Arc<Channel<S>>, TooManyChannels> {
        if let Some(channel) = self.get(name.as_str()) {
            return Ok(channel);
        }
        let named = &mut *self.named.write();
        if let Some(channel) = named.channels.get(name) {
            return Ok(Arc::clone(channel));
        }
        if let Some(reached) = self.limit_reached_by(creator, named) {
            return Err(reached);
        }
        if !name.is_direct() && named.channels.len() - self.direct_len() >= self.limit {
            return Err(TooManyChannels::Server { limit: self.limit });
        }
        let number = self.next_number();
        let account = named.accounts.entry(creator.clone());
        let account = Arc::clone(account.or_insert_with(|| CreatorAccount::new(creator.clone())));
        account.channels.fetch_add(1, Ordering::Relaxed);
        let channel = self.new_channel(name.clone(), account, number, epoch());
        self.insert(named, &channel);
        Ok(channel)
    }

    /// Creates a channel without adding it to the table.
    pub(super) fn new_channel(
        &self,
        name: ChannelName,
        account: Arc<CreatorAccount<Channel<S>>>,
        number: u64,
        epoch: LogEpoch,
    ) -> Arc<Channel<S>> {
        Channel::new(&self.owners, name, account, number, epoch, self.occupancy.clone())
    }

    fn insert(&self, named: &mut NamedChannels<S>, channel: &Arc<Channel<S>>) {
        named.channels.insert(channel.name().clone(), Arc::clone(channel));
        if channel.name().is_pattern() {
            self.patterns.fetch_add(1, Ordering::Release);
        }
        if channel.name().is_direct() {
            self.direct.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds a channel restored from an earlier process to the table. Returns `None` if the name is taken.
    pub(super) fn insert_restored(
        &self,
        name: &ChannelName,
        creator: QuotaOwner,
        make: impl FnOnce(Arc<CreatorAccount<Channel<S>>>) -> Arc<Channel<S>>,
    ) -> Option<Arc<Channel<S>>> {
        let mut named = self.named.write();
        if named.channels.contains_key(name) {
            return None;
        }
        let account = named.accounts.entry(creator.clone()).or_insert_with(|| CreatorAccount::new(creator));
        let channel = make(Arc::clone(account));
        channel.account().channels.fetch_add(1, Ordering::Relaxed);
        self.insert(&mut named, &channel);
        Some(channel)
    }

    /// Replaces a channel by one with a new epoch. Returns `None` if it has already been replaced.
    pub(super) fn replace(&self, old: &Arc<Channel<S>>, epoch: &LogEpoch) -> Option<Arc<Channel<S>>> {
        let channels = &mut self.named.write().channels;
        let entry = channels.get_mut(old.name()).filter(|found| Arc::ptr_eq(found, old))?;
        let (name, account) = (old.name().clone(), Arc::clone(old.account()));
        let new = self.new_channel(name, account, self.next_number(), epoch.clone());
        *entry = Arc::clone(&new);
        Some(new)
    }

    /// Removes a retired channel from the table, unless another channel has already replaced it.
    pub(super) fn remove(&self, channel: &Arc<Channel<S>>) {
        let NamedChannels { channels, accounts } = &mut *self.named.write();
        if channels.get(channel.name()).is_some_and(|found| Arc::ptr_eq(found, channel)) {
            channels.remove(channel.name());
            if channel.name().is_pattern() {
                self.patterns.fetch_sub(1, Ordering::Release);
            }
            if channel.name().is_direct() {
                self.direct.fetch_sub(1, Ordering::Relaxed);
            }
            let account = channel.account();
            if account.channels.fetch_sub(1, Ordering::Relaxed) == 1 {
                accounts.remove(account.creator());
            }
        }
    }

    /// Returns the channel whose timer has this key, if it still exists.
    pub(super) fn find_by_timer(&self, owner: OwnerKey) -> Option<Arc<Channel<S>>> {
        self.owners.get(owner)
    }

    /// Unregisters the timer of a channel.
    pub(super) fn remove_timer(&self, timer: &TimerCell) {
        self.owners.remove(timer);
    }

    /// Number of timers registered for channels.
    #[cfg(any(test, feature = "simulation"))]
    pub(super) fn timer_count(&self) -> usize {
        self.owners.count()
    }

    /// Returns a number that no other channel of this process has or had.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the next number to assign. All numbers assigned so far are lower.
    pub(super) fn next_unused_number(&self) -> u64 {
        self.numbers.load(Ordering::Relaxed)
    }

    /// Reserves all numbers up to and including `number`.
    pub(super) fn reserve_numbers(&self, number: u64) {
        self.numbers.fetch_max(number + 1, Ordering::Relaxed);
    }

    /// Returns the individual limit that `creator` has reached, if any. A single address can create at most
    /// half of all channels, which leaves room for newcomers.
    fn limit_reached_by(&self, creator: &QuotaOwner, named: &NamedChannels<S>) -> Option<TooManyChannels> {
        let (limit, reached) = match creator {
            QuotaOwner::User(_) => {
                (self.limit_per_creator, TooManyChannels::User { limit: self.limit_per_creator })
            }
            QuotaOwner::Address(_) => {
                let limit = self.limit.div_ceil(2);
                (limit, TooManyChannels::Address { limit })
            }
            QuotaOwner::Operator => return None,
        };
        let created = named.accounts.get(creator)?.channels.load(Ordering::Relaxed);
        (created >= limit).then_some(reached)
    }
}
