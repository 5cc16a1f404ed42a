use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::message::CompactJson;
use parking_lot::RwLock;

use super::budget::{Account, Budget};
use super::fan_out;
use super::idle::Idle;
use super::log::Log;
use super::name::ChannelName;
use super::state::{Appended, Change, Channel, Retired, State};
use super::subscribers::{Subscriber, SubscriberKey};
use crate::admission::Holder;
use crate::entropy::Entropy;
use crate::executor::Executor;
use crate::metrics::Metrics;
use crate::timeouts::{ArmAction, OwnerKey, Owners, RequestedDeadline, Timeouts, TimerOwner};

/// How many logs one publish looks at to keep all within their budget. Each look frees a message, or finds that the log's
/// oldest message is younger than its position says, which happens at most once a message. So any number well above one
/// keeps up.
const LOGS_LOOKED_AT: usize = 1024;

/// The limits of logs.
#[derive(Clone, Debug)]
pub struct LogLimits {
    /// Messages of one log.
    pub messages: usize,
    /// Bytes of one log.
    pub bytes: usize,
    /// How old a message may become.
    pub age: Option<Duration>,
    /// Bytes of all logs together.
    pub total_bytes: usize,
}

/// All channels.
#[derive(Debug)]
pub(crate) struct Channels<S: Subscriber> {
    /// Locked for one look-up.
    table: RwLock<Table<S>>,
    /// By the keys in their timers.
    pub(super) owners: Owners<Channel<S>>,
    limit: usize,
    limit_each: usize,
    log_limits: LogLimits,
    budget: Budget<S>,
    pub(super) idle: Idle,
    timeouts: Arc<Timeouts>,
    metrics: Arc<Metrics>,
    entropy: Entropy,
    executor: Arc<dyn Executor>,
    numbers: AtomicU64,
}

#[derive(Debug)]
struct Table<S> {
    channels: BTreeMap<ChannelName, Arc<Channel<S>>>,
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
}

/// A message that is in its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) offset: u64,
    pub(crate) epoch: Box<str>,
}

/// Keeps a channel in the table, though nothing may follow it yet.
#[derive(Debug)]
pub(crate) struct Hold<S: Subscriber> {
    channel: Arc<Channel<S>>,
    channels: Arc<Channels<S>>,
}

impl<S: Subscriber> Hold<S> {
    pub(crate) fn channel(&self) -> &Arc<Channel<S>> {
        &self.channel
    }
}

impl<S: Subscriber> Drop for Hold<S> {
    fn drop(&mut self) {
        self.channel.remove_hold();
        self.channels.retire_if_unused(&self.channel);
    }
}

impl<S: Subscriber> Channels<S> {
    /// No channels yet, and at most `limit`, and `limit_each` that one user has made. Large audiences are told on `executor`.
    pub(crate) fn new(
        limit: usize,
        limit_each: usize,
        log_limits: LogLimits,
        timeouts: Arc<Timeouts>,
        metrics: Arc<Metrics>,
        entropy: Entropy,
        executor: Arc<dyn Executor>,
    ) -> Self {
        Self {
            table: RwLock::default(),
            owners: Owners::new(TimerOwner::Log),
            limit,
            limit_each,
            idle: Idle::default(),
            budget: Budget::new(log_limits.total_bytes),
            log_limits,
            timeouts,
            metrics,
            entropy,
            executor,
            numbers: AtomicU64::new(0),
        }
    }

    /// The channel of this name, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Channel<S>>> {
        self.table.read().channels.get(name).cloned()
    }

    /// The channels after `cursor`, at most `limit` of them, in the order of their names.
    pub(crate) fn after(&self, cursor: Option<&str>, limit: usize) -> Vec<Arc<Channel<S>>> {
        let range = (cursor.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.table
            .read()
            .channels
            .range::<str, _>(range)
            .map(|(_, channel)| Arc::clone(channel))
            .take(limit)
            .collect()
    }

    #[cfg(test)]
    pub(super) fn has_no_accounts(&self) -> bool {
        self.table.read().accounts.is_empty() && self.budget.is_empty()
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

    /// What all logs hold, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.budget.bytes()
    }

    /// Appends to a channel's log, and has its subscribers told. If there is none, `maker` makes it.
    ///
    /// # Errors
    /// [`TooManyChannels`], when there is no such channel and no further one may be opened.
    pub(crate) fn publish(
        &self,
        name: &ChannelName,
        maker: &Holder,
        data: &CompactJson<'_>,
    ) -> Result<Published, TooManyChannels> {
        let now = self.timeouts.clock().now();
        loop {
            let channel = self.open(name, maker)?;
            let mut action = ArmAction::Nothing;
            let then = |state: &mut State<S>, bytes| {
                self.budget.changed(channel.account(), bytes);
                self.idle.note(&channel, state);
                if state.age_key.is_none() {
                    let age_key = (now, channel.number());
                    state.age_key = Some(age_key);
                    channel.account().list(age_key, Arc::downgrade(&channel));
                }
                action = self.request_age(&channel, state);
            };
            match channel.append(now, data, &self.log_limits, then) {
                Err(Retired) => self.forget(&channel),
                Ok(Appended { offset, sweep }) => {
                    self.timeouts.carry_out(&channel.timer, action);
                    self.keep_to_budget(now);
                    self.metrics.channels.published();
                    if sweep {
                        fan_out::sweep(Arc::clone(&channel), &*self.executor);
                    }
                    return Ok(Published { offset, epoch: channel.epoch().into() });
                }
            }
        }
    }

    /// The channel of this name, opened if it is not there, and kept from leaving the table for as long as it is held.
    ///
    /// # Errors
    /// [`TooManyChannels`], when there is no such channel and no further one may be opened.
    pub(crate) fn hold(
        self: &Arc<Self>,
        name: &ChannelName,
        maker: &Holder,
    ) -> Result<Hold<S>, TooManyChannels> {
        loop {
            let channel = self.open(name, maker)?;
            match channel.add_hold(|state| self.idle.note(&channel, state)) {
                Ok(()) => return Ok(Hold { channel, channels: Arc::clone(self) }),
                Err(Retired) => self.forget(&channel),
            }
        }
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

    /// The oldest message of a log may have reached its age.
    pub(crate) fn handle_timeout(&self, channel: &Arc<Channel<S>>) {
        let Some(age) = self.log_limits.age else { return };
        let now = self.timeouts.clock().now();
        if let Some(cutoff) = now.before(age) {
            self.trim(channel, |log| log.drop_up_to(cutoff));
        }
    }

    fn open(&self, name: &ChannelName, maker: &Holder) -> Result<Arc<Channel<S>>, TooManyChannels> {
        if let Some(channel) = self.get(name.as_str()) {
            return Ok(channel);
        }
        loop {
            let mut table = self.table.write();
            if let Some(channel) = table.channels.get(name) {
                return Ok(Arc::clone(channel));
            }
            if let (Holder::User(_), Some(account)) = (maker, table.accounts.get(maker))
                && account.channels.load(Ordering::Relaxed) >= self.limit_each
            {
                return Err(TooManyChannels::OfUser { limit: self.limit_each });
            }
            if table.channels.len() < self.limit {
                let number = self.numbers.fetch_add(1, Ordering::Relaxed);
                let account = table.accounts.entry(maker.clone());
                let account = Arc::clone(account.or_insert_with(|| Account::new(maker.clone())));
                account.channels.fetch_add(1, Ordering::Relaxed);
                let channel = Channel::new(&self.owners, name.clone(), account, number, &self.entropy);
                table.channels.insert(name.clone(), Arc::clone(&channel));
                return Ok(channel);
            }
            drop(table);
            if !self.end_one_idle() {
                return Err(TooManyChannels::Here { limit: self.limit });
            }
        }
    }

    /// Takes a retired channel out of the table, if it is still there.
    fn forget(&self, channel: &Arc<Channel<S>>) {
        let Table { channels, accounts } = &mut *self.table.write();
        if channels.get(channel.name()).is_some_and(|found| Arc::ptr_eq(found, channel)) {
            channels.remove(channel.name());
            let account = channel.account();
            if account.channels.fetch_sub(1, Ordering::Relaxed) == 1 {
                accounts.remove(account.maker());
            }
        }
    }

    fn retire_if_unused(&self, channel: &Arc<Channel<S>>) {
        let action = {
            let mut state = channel.state.lock();
            let is_unused = state.is_unused();
            state.retired |= is_unused;
            self.idle.note(channel, &mut state);
            if !is_unused {
                return;
            }
            if let Some(age_key) = state.age_key.take() {
                channel.account().unlist(age_key);
            }
            self.timeouts.request(&channel.timer, RequestedDeadline::NONE)
        };
        self.timeouts.carry_out(&channel.timer, action);
        self.owners.remove(&channel.timer);
        self.forget(channel);
    }

    /// Drops the oldest messages of whoever has most, until the logs together are within their budget. A publish does only so much of
    /// it, and leaves the rest to the next.
    fn keep_to_budget(&self, now: Timestamp) {
        for _ in 0..LOGS_LOOKED_AT {
            let Some(channel) = self.budget.oldest_if_over(now) else { return };
            let key = channel.state.lock().age_key.map(|(at, _)| at);
            self.trim(&channel, |log| {
                // The key is the age of what was its oldest message. If that is gone, only the key changes.
                if log.oldest_at() == key {
                    log.drop_oldest();
                }
            });
        }
    }

    /// Drops some messages of a log, and updates everything that depends on its oldest message.
    fn trim(&self, channel: &Arc<Channel<S>>, drop: impl FnOnce(&mut Log)) {
        self.trim_if(channel, |_| true, drop);
    }

    /// The same, if the channel is as it should be.
    pub(super) fn trim_if(
        &self,
        channel: &Arc<Channel<S>>,
        is_right: impl FnOnce(&mut State<S>) -> bool,
        drop: impl FnOnce(&mut Log),
    ) {
        let action = {
            let mut state = channel.state.lock();
            if !is_right(&mut state) {
                return;
            }
            let before = state.log.bytes();
            drop(&mut state.log);
            self.budget.changed(channel.account(), Change { before, after: state.log.bytes() });
            if let Some(age_key) = state.age_key.take() {
                channel.account().unlist(age_key);
            }
            if let Some(oldest_at) = state.log.oldest_at() {
                let age_key = (oldest_at, channel.number());
                state.age_key = Some(age_key);
                channel.account().list(age_key, Arc::downgrade(channel));
            }
            self.request_age(channel, &state)
        };
        self.timeouts.carry_out(&channel.timer, action);
        self.retire_if_unused(channel);
    }

    fn request_age(&self, channel: &Channel<S>, state: &State<S>) -> ArmAction {
        let deadline = match (state.log.oldest_at(), self.log_limits.age) {
            (Some(oldest_at), Some(age)) => RequestedDeadline::exact((oldest_at + age).as_nanos()),
            _ => RequestedDeadline::NONE,
        };
        self.timeouts.request(&channel.timer, deadline)
    }
}
