use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::RwLock;

use super::budget::{Account, Budget};
use super::fan_out::FanOut;
use super::idle::Idle;
use super::life::Life;
use super::name::ChannelName;
use super::namespaces::Namespaces;
use super::occupancy::Occupancy;
use super::pattern::for_each_matching;
use super::state::Channel;
use super::subscribers::{Subscriber, SubscriberKey};
use crate::admission::Holder;
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::metrics::Metrics;
use crate::timeouts::{OwnerKey, Owners, Timeouts, TimerOwner};

/// The limits of logs.
#[derive(Clone, Debug)]
pub struct LogLimits {
    /// Messages of one log.
    pub messages: usize,
    /// Bytes of one log.
    pub bytes: usize,
    /// How old a message may become.
    pub age: Option<Duration>,
    /// Bytes of all logs together, the same for all.
    pub total_bytes: usize,
}

/// All channels.
#[derive(Debug)]
pub(crate) struct Channels<S: Subscriber> {
    pub(super) fan_out: Arc<FanOut<S>>,
    /// Locked for one look-up.
    pub(super) table: RwLock<Table<S>>,
    /// By the keys in their timers.
    pub(super) owners: Owners<Channel<S>>,
    limit: usize,
    limit_each: usize,
    namespaces: Arc<Namespaces>,
    pub(super) budget: Budget<S>,
    pub(super) idle: Idle,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) entropy: Entropy,
    pub(super) occupancy: Option<Arc<Occupancy>>,
    numbers: AtomicU64,
    /// How many of the channels are patterns. While there are none, a publish looks for none.
    patterns: AtomicUsize,
    /// How many have what the server says. There are no more than two for each session, whatever the limit of channels.
    pub(super) direct: AtomicUsize,
    /// Nothing is appended any more. Read under the lock of a log.
    closed: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Table<S> {
    pub(super) channels: BTreeMap<ChannelName, Arc<Channel<S>>>,
    /// Of those who have made some.
    accounts: HashMap<Holder, Arc<Account<S>>>,
}

impl<S> Default for Table<S> {
    fn default() -> Self {
        Self { channels: BTreeMap::new(), accounts: HashMap::new() }
    }
}

/// No further channel is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooManyChannels {
    #[error("channel limit reached (limits.max_channels = {limit})")]
    Here { limit: usize },
    #[error("the user's channel limit reached (limits.max_channels_per_user = {limit})")]
    OfUser { limit: usize },
    #[error("the address's channel limit reached ({limit}, which is half of limits.max_channels)")]
    OfAddress { limit: usize },
}

/// Why a message is in no log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotPublished {
    #[error(transparent)]
    TooManyChannels(#[from] TooManyChannels),
    #[error("the server is going away, and takes no more messages")]
    Draining,
}

/// A message that is in its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) offset: u64,
    pub(crate) epoch: Box<str>,
}

impl<S: Subscriber> Channels<S> {
    /// No channels yet, and at most `limit`, and `limit_each` that one user has made, or half of them one address. Large audiences are told on `executor`.
    #[expect(clippy::too_many_arguments, reason = "what all channels share")]
    pub(crate) fn new(
        home: Arc<S::Home>,
        limit: usize,
        limit_each: usize,
        namespaces: Arc<Namespaces>,
        timeouts: Arc<Timeouts>,
        metrics: Arc<Metrics>,
        entropy: Entropy,
        executor: Arc<dyn Executor>,
    ) -> Self {
        Self {
            fan_out: Arc::new(FanOut::new(home, executor)),
            table: RwLock::default(),
            owners: Owners::new(TimerOwner::Log),
            limit,
            limit_each,
            idle: Idle::default(),
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

    /// Somebody wants to know when the first follows a channel, and when the last has left.
    pub(crate) fn with_occupancy(self, occupancy: Option<Arc<Occupancy>>) -> Self {
        Self { occupancy, ..self }
    }

    /// What holds for channels by their names.
    pub(crate) fn namespaces(&self) -> &Arc<Namespaces> {
        &self.namespaces
    }

    pub(super) fn log_limits(&self, channel: &Channel<S>) -> &LogLimits {
        &self.namespaces.rules_of(channel.name().as_str()).log
    }

    /// Where those are that follow.
    pub(crate) fn home(&self) -> &Arc<S::Home> {
        &self.fan_out.home
    }

    /// From here on nothing is appended: whoever locks a log after this finds it as it stays.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether nothing is appended any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The channel of this name, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Channel<S>>> {
        self.table.read().channels.get(name).cloned()
    }

    /// The patterns there are that stand for this channel, always in the same order.
    pub(super) fn patterns_of(&self, name: &ChannelName) -> Vec<Arc<Channel<S>>> {
        let mut patterns = Vec::new();
        debug_assert!(!name.is_pattern(), "nobody publishes to a pattern");
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

    /// What all logs hold, in bytes, each counted once.
    #[cfg(feature = "simulation")]
    pub(crate) fn counted_bytes(&self) -> usize {
        let mut seen = std::collections::HashSet::new();
        let channels = self.after(None, usize::MAX);
        channels.iter().map(|channel| channel.state.lock().log.count(&mut seen)).sum()
    }

    /// How many timers know a channel.
    #[cfg(feature = "simulation")]
    pub(crate) fn timers(&self) -> usize {
        self.owners.len()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.table.read().channels.len()
    }

    /// How many there are that count to the limit.
    pub(crate) fn counted(&self) -> usize {
        self.len().saturating_sub(self.direct.load(Ordering::Relaxed))
    }

    /// What an engine counts.
    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// What all logs hold, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.budget.bytes()
    }

    /// The subscriber no longer follows the channel.
    pub(crate) fn unsubscribe(&self, channel: &Arc<Channel<S>>, key: SubscriberKey) {
        channel.remove_subscriber(key);
        self.retire_if_unused(channel);
    }

    /// The channel whose timer has this key, if it is still there.
    pub(crate) fn by_timer(&self, owner: OwnerKey) -> Option<Arc<Channel<S>>> {
        self.owners.get(owner)
    }

    pub(super) fn open(
        &self,
        name: &ChannelName,
        maker: &Holder,
    ) -> Result<Arc<Channel<S>>, TooManyChannels> {
        self.open_with(name, maker, || Life::begin(&self.entropy))
    }

    /// The same. If the channel is not there, this is its life.
    pub(super) fn open_with(
        &self,
        name: &ChannelName,
        maker: &Holder,
        life: impl Fn() -> Life,
    ) -> Result<Arc<Channel<S>>, TooManyChannels> {
        if let Some(channel) = self.get(name.as_str()) {
            return Ok(channel);
        }
        loop {
            let mut table = self.table.write();
            if let Some(channel) = table.channels.get(name) {
                return Ok(Arc::clone(channel));
            }
            if let Some(reached) = self.reached_by(maker, &table) {
                drop(table);
                // An address may be that of many clients, which know nothing of each other.
                if matches!(maker, Holder::Address(_)) && self.end_one_idle_of(maker) {
                    continue;
                }
                return Err(reached);
            }
            let direct = self.direct.load(Ordering::Relaxed);
            if name.is_direct() || table.channels.len() - direct < self.limit {
                let number = self.next_number();
                let account = table.accounts.entry(maker.clone());
                let account = Arc::clone(account.or_insert_with(|| Account::new(maker.clone())));
                account.channels.fetch_add(1, Ordering::Relaxed);
                let channel = self.make(name.clone(), account, number, life());
                self.list(&mut table, &channel);
                return Ok(channel);
            }
            drop(table);
            if !self.end_one_idle() {
                return Err(TooManyChannels::Here { limit: self.limit });
            }
        }
    }

    /// A channel that is in no table yet.
    pub(super) fn make(
        &self,
        name: ChannelName,
        account: Arc<Account<S>>,
        number: u64,
        life: Life,
    ) -> Arc<Channel<S>> {
        Channel::new(&self.owners, name, account, number, life, self.occupancy.clone())
    }

    fn list(&self, table: &mut Table<S>, channel: &Arc<Channel<S>>) {
        table.channels.insert(channel.name().clone(), Arc::clone(channel));
        if channel.name().is_pattern() {
            self.patterns.fetch_add(1, Ordering::Release);
        }
        if channel.name().is_direct() {
            self.direct.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Puts a channel of an earlier process into the table. Fails if there is one of this name.
    pub(super) fn put_back(
        &self,
        name: &ChannelName,
        maker: Holder,
        make: impl FnOnce(Arc<Account<S>>) -> Arc<Channel<S>>,
    ) -> Option<Arc<Channel<S>>> {
        let mut table = self.table.write();
        if table.channels.contains_key(name) {
            return None;
        }
        let account = table.accounts.entry(maker.clone()).or_insert_with(|| Account::new(maker));
        let channel = make(Arc::clone(account));
        channel.account().channels.fetch_add(1, Ordering::Relaxed);
        self.list(&mut table, &channel);
        Some(channel)
    }

    /// A number that no other channel here has or had.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Numbers below this one have been given to channels.
    pub(super) fn numbers_given(&self) -> u64 {
        self.numbers.load(Ordering::Relaxed)
    }

    /// Numbers up to this one have been given to channels.
    pub(super) fn pass_number(&self, number: u64) {
        self.numbers.fetch_max(number + 1, Ordering::Relaxed);
    }

    /// The limit that a maker has reached for itself. Half of all channels are out of the reach of any one address, so that a newcomer gets
    /// one.
    fn reached_by(&self, maker: &Holder, table: &Table<S>) -> Option<TooManyChannels> {
        let (limit, reached) = match maker {
            Holder::User(_) => (self.limit_each, TooManyChannels::OfUser { limit: self.limit_each }),
            Holder::Address(_) => {
                let limit = self.limit.div_ceil(2);
                (limit, TooManyChannels::OfAddress { limit })
            }
            Holder::Operator => return None,
        };
        let made = table.accounts.get(maker)?.channels.load(Ordering::Relaxed);
        (made >= limit).then_some(reached)
    }

    /// Takes a retired channel out of the table, if it is still there.
    pub(super) fn forget(&self, channel: &Arc<Channel<S>>) {
        let Table { channels, accounts } = &mut *self.table.write();
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
                accounts.remove(account.maker());
            }
        }
    }
}
