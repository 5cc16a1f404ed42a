use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use encke_base::entropy::Entropy;
use encke_base::executor::Executor;
use encke_base::locks::{RwLock, level};
use encke_base::metrics::Metrics;
use encke_base::quota::QuotaOwner;
use encke_timeouts::{OwnerKey, Timeouts, TimerOwner, TimerOwners};

use super::budget::{Budget, CreatorAccount};
use super::epoch::LogEpoch;
use super::fan_out::FanOut;
use super::idle::IdleChannels;
use super::name::ChannelName;
use super::namespaces::Namespaces;
use super::occupancy::Occupancy;
use super::pattern::for_each_matching;
use super::state::Channel;
use super::subscribers::{Subscriber, SubscriberKey};

/// Limits of channel logs.
#[derive(Clone, Debug)]
pub struct LogLimits {
    /// Maximum number of messages in a log.
    pub messages: usize,
    /// Maximum size of a log in bytes.
    pub bytes: usize,
    /// Maximum age of a message; `None`: unlimited.
    pub age: Option<Duration>,
    /// Maximum size of all logs together in bytes; the same in all namespaces.
    pub total_bytes: usize,
}

/// All channels of the server.
#[derive(Debug)]
pub struct Channels<S: Subscriber> {
    pub(super) fan_out: Arc<FanOut<S>>,
    pub(super) table: RwLock<ChannelTable<S>, level::Table>,
    /// Maps the keys in timers to their channels.
    pub(super) owners: TimerOwners<Channel<S>>,
    limit: usize,
    limit_per_creator: usize,
    namespaces: Arc<Namespaces>,
    pub(super) budget: Budget<S>,
    pub(super) idle: IdleChannels,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) entropy: Entropy,
    pub(super) occupancy: Option<Arc<Occupancy>>,
    numbers: AtomicU64,
    /// Number of patterns in the table. While it is zero, a publish skips the search for matching patterns.
    patterns: AtomicUsize,
    /// Number of direct-message channels. There are at most two for each session, and they do not count
    /// towards the channel limit.
    pub(super) direct: AtomicUsize,
    /// Whether appends are stopped. Read while holding the lock of a log.
    closed: AtomicBool,
}

#[derive(Debug)]
pub(super) struct ChannelTable<S> {
    pub(super) channels: BTreeMap<ChannelName, Arc<Channel<S>>>,
    /// Accounts of all creators that have channels.
    accounts: HashMap<QuotaOwner, Arc<CreatorAccount<S>>>,
}

impl<S> Default for ChannelTable<S> {
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

/// Why a publish failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    TooManyChannels(#[from] TooManyChannels),
    #[error("the server is shutting down and accepts no more messages")]
    Draining,
}

/// Position of a published message in its channel's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub offset: u64,
    pub epoch: Box<str>,
}

impl<S: Subscriber> Channels<S> {
    /// Creates an empty set of at most `limit` channels. One user can create at most `limit_per_creator` of
    /// them, and one address at most half. Large audiences are notified on `executor`.
    #[expect(clippy::too_many_arguments, reason = "what all channels share")]
    pub fn new(
        registry: Arc<S::Registry>,
        limit: usize,
        limit_per_creator: usize,
        namespaces: Arc<Namespaces>,
        timeouts: Arc<Timeouts>,
        metrics: Arc<Metrics>,
        entropy: Entropy,
        executor: Arc<dyn Executor>,
    ) -> Self {
        Self {
            fan_out: Arc::new(FanOut::new(registry, executor)),
            table: RwLock::default(),
            owners: TimerOwners::new(TimerOwner::Log),
            limit,
            limit_per_creator,
            idle: IdleChannels::default(),
            budget: Budget::new(namespaces.total_bytes()),
            namespaces,
            timeouts,
            metrics,
            entropy,
            occupancy: None,
            numbers: AtomicU64::new(0),
            patterns: AtomicUsize::new(0),
            direct: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Reports the first subscription to a channel and the end of the last one to `occupancy`.
    pub fn with_occupancy(self, occupancy: Option<Arc<Occupancy>>) -> Self {
        Self { occupancy, ..self }
    }

    pub fn namespaces(&self) -> &Arc<Namespaces> {
        &self.namespaces
    }

    pub(super) fn log_limits(&self, channel: &Channel<S>) -> &LogLimits {
        &self.namespaces.rules_of(channel.name().as_str()).log
    }

    /// Registry in which subscribers are looked up.
    pub fn registry(&self) -> &Arc<S::Registry> {
        &self.fan_out.registry
    }

    /// Stops all appends. An append that is in progress still completes, so the contents of a log are final
    /// once its lock has been acquired after this call.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether appends are stopped.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns the channel with this name, if it exists.
    pub fn get(&self, name: &str) -> Option<Arc<Channel<S>>> {
        self.table.read().channels.get(name).cloned()
    }

    /// Returns the existing patterns that match the channel, always in the same order.
    pub(super) fn patterns_of(&self, name: &ChannelName) -> Vec<Arc<Channel<S>>> {
        let mut patterns = Vec::new();
        debug_assert!(!name.is_pattern(), "patterns cannot be published to");
        if self.patterns.load(Ordering::Acquire) > 0 {
            let table = self.table.read();
            for_each_matching(name.as_str(), |pattern| patterns.extend(table.channels.get(pattern).cloned()));
        }
        patterns
    }

    #[cfg(test)]
    pub(super) fn has_no_accounts(&self) -> bool {
        self.table.read().accounts.is_empty() && self.budget.is_empty()
    }

    /// Bytes held by all logs, each message counted once.
    #[cfg(feature = "simulation")]
    pub fn count_bytes(&self) -> usize {
        let mut seen = std::collections::HashSet::new();
        let channels = self.after(None, usize::MAX);
        channels.iter().map(|channel| channel.state.lock().log.count_bytes(&mut seen)).sum()
    }

    /// Number of timers registered for channels.
    #[cfg(feature = "simulation")]
    pub fn timer_count(&self) -> usize {
        self.owners.count()
    }

    /// Number of channels.
    pub fn len(&self) -> usize {
        self.table.read().channels.len()
    }

    /// Number of channels that count towards the limit.
    pub fn limited_len(&self) -> usize {
        self.len().saturating_sub(self.direct.load(Ordering::Relaxed))
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Bytes held by all logs.
    pub fn bytes(&self) -> usize {
        self.budget.bytes()
    }

    /// Ends a subscription.
    pub fn unsubscribe(&self, channel: &Arc<Channel<S>>, key: SubscriberKey) {
        channel.remove_subscriber(key);
        self.retire_if_unused(channel);
    }

    /// Returns the channel whose timer has this key, if it still exists.
    pub fn find_by_timer(&self, owner: OwnerKey) -> Option<Arc<Channel<S>>> {
        self.owners.get(owner)
    }

    pub(super) fn get_or_create(
        &self,
        name: &ChannelName,
        creator: &QuotaOwner,
    ) -> Result<Arc<Channel<S>>, TooManyChannels> {
        self.get_or_create_with(name, creator, || LogEpoch::random(&self.entropy))
    }

    /// Like [`get_or_create`](Self::get_or_create), but a new channel starts with the given epoch.
    pub(super) fn get_or_create_with(
        &self,
        name: &ChannelName,
        creator: &QuotaOwner,
        epoch: impl Fn() -> LogEpoch,
    ) -> Result<Arc<Channel<S>>, TooManyChannels> {
        if let Some(channel) = self.get(name.as_str()) {
            return Ok(channel);
        }
        loop {
            let mut table = self.table.write();
            if let Some(channel) = table.channels.get(name) {
                return Ok(Arc::clone(channel));
            }
            if let Some(reached) = self.limit_reached_by(creator, &table) {
                drop(table);
                // Unrelated clients may share an address, so evict one of its channels instead of failing.
                if matches!(creator, QuotaOwner::Address(_)) && self.evict_idle_of(creator) {
                    continue;
                }
                return Err(reached);
            }
            let direct = self.direct.load(Ordering::Relaxed);
            if name.is_direct() || table.channels.len() - direct < self.limit {
                let number = self.next_number();
                let account = table.accounts.entry(creator.clone());
                let account = Arc::clone(account.or_insert_with(|| CreatorAccount::new(creator.clone())));
                account.channels.fetch_add(1, Ordering::Relaxed);
                let channel = self.new_channel(name.clone(), account, number, epoch());
                self.insert(&mut table, &channel);
                return Ok(channel);
            }
            drop(table);
            if !self.evict_idle() {
                return Err(TooManyChannels::Server { limit: self.limit });
            }
        }
    }

    /// Creates a channel without adding it to the table.
    pub(super) fn new_channel(
        &self,
        name: ChannelName,
        account: Arc<CreatorAccount<S>>,
        number: u64,
        epoch: LogEpoch,
    ) -> Arc<Channel<S>> {
        Channel::new(&self.owners, name, account, number, epoch, self.occupancy.clone())
    }

    fn insert(&self, table: &mut ChannelTable<S>, channel: &Arc<Channel<S>>) {
        table.channels.insert(channel.name().clone(), Arc::clone(channel));
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
        make: impl FnOnce(Arc<CreatorAccount<S>>) -> Arc<Channel<S>>,
    ) -> Option<Arc<Channel<S>>> {
        let mut table = self.table.write();
        if table.channels.contains_key(name) {
            return None;
        }
        let account = table.accounts.entry(creator.clone()).or_insert_with(|| CreatorAccount::new(creator));
        let channel = make(Arc::clone(account));
        channel.account().channels.fetch_add(1, Ordering::Relaxed);
        self.insert(&mut table, &channel);
        Some(channel)
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
    fn limit_reached_by(&self, creator: &QuotaOwner, table: &ChannelTable<S>) -> Option<TooManyChannels> {
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
        let created = table.accounts.get(creator)?.channels.load(Ordering::Relaxed);
        (created >= limit).then_some(reached)
    }

    /// Removes a retired channel from the table, unless another channel has already replaced it.
    pub(super) fn remove_from_table(&self, channel: &Arc<Channel<S>>) {
        let ChannelTable { channels, accounts } = &mut *self.table.write();
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
}
