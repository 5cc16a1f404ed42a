use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use encke_core::message::CompactJson;
use encke_core::session::outbox::{Bounds, Slot};
use parking_lot::RwLock;
use tokio::runtime::Handle;

use super::budget::Budget;
use super::cell::{Appended, Change, Channel, Retired, State};
use super::fan_out;
use super::log::Log;
use super::name::ChannelName;
use super::subscribers::SubscriberKey;
use crate::metrics::Metrics;
use crate::session::SessionCell;
use crate::timeouts::{Timeouts, Told, Wish};

/// How many logs one publish looks at to keep all within their budget. Looking at one frees a message, or finds it younger
/// than it stood for, which each message is at most once: so many more than one is enough to keep up.
const LOGS_LOOKED_AT: usize = 1024;

/// What logs may hold.
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
pub(crate) struct Channels {
    /// The table. Its lock is held for one look-up; at most a session's is held meanwhile.
    table: RwLock<BTreeMap<ChannelName, Arc<Channel>>>,
    limit: usize,
    log_limits: LogLimits,
    budget: Budget,
    timeouts: Arc<Timeouts>,
    metrics: Arc<Metrics>,
    runtime: Handle,
    numbers: AtomicU64,
}

/// There are as many channels as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are as many channels as there may be: {limit} (limits.max_channels)")]
pub(crate) struct Full {
    limit: usize,
}

/// A message that is in its log.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) channel: Arc<Channel>,
    pub(crate) offset: u64,
}

impl Channels {
    /// No channels yet, and at most `limit`. Large audiences are told on `runtime`.
    pub(crate) fn new(
        limit: usize,
        log_limits: LogLimits,
        timeouts: Arc<Timeouts>,
        metrics: Arc<Metrics>,
        runtime: Handle,
    ) -> Self {
        Self {
            table: RwLock::default(),
            limit,
            budget: Budget::new(log_limits.total_bytes),
            log_limits,
            timeouts,
            metrics,
            runtime,
            numbers: AtomicU64::new(0),
        }
    }

    /// The channel of this name, if there is one.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Channel>> {
        self.table.read().get(name).cloned()
    }

    /// The channels after `cursor`, at most `limit` of them, in the order of their names.
    pub(crate) fn after(&self, cursor: Option<&str>, limit: usize) -> Vec<Arc<Channel>> {
        let range = (cursor.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        self.table.read().range::<str, _>(range).map(|(_, channel)| Arc::clone(channel)).take(limit).collect()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.table.read().len()
    }

    /// What all logs hold, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.budget.bytes()
    }

    /// Appends to a channel's log, and sees that its subscribers are told.
    ///
    /// # Errors
    /// [`Full`], when there is no such channel and may be no more.
    pub(crate) fn publish(&self, name: &ChannelName, data: &CompactJson<'_>) -> Result<Published, Full> {
        let now = self.timeouts.clock().now();
        loop {
            let channel = self.open(name)?;
            let mut told = Told::Enough;
            let then = |state: &mut State, bytes| {
                self.budget.changed(bytes);
                if state.place.is_none() {
                    let place = (now, channel.number());
                    state.place = Some(place);
                    self.budget.list(place, Arc::downgrade(&channel));
                }
                told = self.want_age(&channel, state);
            };
            match channel.append(now, data, &self.log_limits, then) {
                Err(Retired) => self.forget(&channel),
                Ok(Appended { offset, sweep }) => {
                    self.timeouts.tell_wheel(&channel.timer, told);
                    self.keep_to_budget();
                    self.metrics.published();
                    if sweep {
                        fan_out::sweep(Arc::clone(&channel), &self.runtime);
                    }
                    return Ok(Published { channel, offset });
                }
            }
        }
    }

    /// Makes a session a subscriber of a channel, which comes to be if it is not there.
    ///
    /// `join` decides by the log's bounds where the session begins to read. It is called with the channel's lock held, so
    /// that nothing is published in between; what it is given last says in which slot of the session that is.
    ///
    /// # Errors
    /// [`Full`], when there is no such channel and may be no more.
    pub(crate) fn subscribe<R>(
        &self,
        name: &ChannelName,
        session: &Arc<SessionCell>,
        mut join: impl FnMut(&Arc<Channel>, Bounds, &mut dyn FnMut(Slot) -> SubscriberKey) -> R,
    ) -> Result<R, Full> {
        loop {
            let channel = self.open(name)?;
            let session = Arc::downgrade(session);
            match channel.add_subscriber(session, |bounds, add| join(&channel, bounds, add)) {
                Ok(result) => return Ok(result),
                Err(Retired) => self.forget(&channel),
            }
        }
    }

    /// The session does not follow the channel any more.
    pub(crate) fn unsubscribe(&self, channel: &Arc<Channel>, key: SubscriberKey) {
        channel.remove_subscriber(key);
        self.retire_if_unused(channel);
    }

    /// The oldest message of a log may have reached its age.
    pub(crate) fn handle_timeout(&self, channel: &Arc<Channel>) {
        let Some(age) = self.log_limits.age else { return };
        let now = self.timeouts.clock().now();
        if let Some(cutoff) = now.before(age) {
            self.trim(channel, |log| log.drop_up_to(cutoff));
        }
    }

    fn open(&self, name: &ChannelName) -> Result<Arc<Channel>, Full> {
        if let Some(channel) = self.get(name.as_str()) {
            return Ok(channel);
        }
        let mut table = self.table.write();
        if let Some(channel) = table.get(name) {
            return Ok(Arc::clone(channel));
        }
        if table.len() >= self.limit {
            return Err(Full { limit: self.limit });
        }
        let channel = Channel::new(name.clone(), self.numbers.fetch_add(1, Ordering::Relaxed));
        table.insert(name.clone(), Arc::clone(&channel));
        Ok(channel)
    }

    /// Takes a retired channel out of the table, if it is there still.
    fn forget(&self, channel: &Arc<Channel>) {
        let mut table = self.table.write();
        if table.get(channel.name()).is_some_and(|found| Arc::ptr_eq(found, channel)) {
            table.remove(channel.name());
        }
    }

    fn retire_if_unused(&self, channel: &Arc<Channel>) {
        let told = {
            let mut state = channel.state.lock();
            if state.retired || state.log.len() > 0 || state.subscribers.len() > 0 {
                return;
            }
            state.retired = true;
            if let Some(place) = state.place.take() {
                self.budget.unlist(place);
            }
            self.timeouts.want(&channel.timer, Wish::NONE)
        };
        self.timeouts.tell_wheel(&channel.timer, told);
        self.forget(channel);
    }

    /// Lets go of the oldest messages of all, until the logs together hold no more than they may. What is more than a
    /// publish should have to wait for is left to the next.
    fn keep_to_budget(&self) {
        for _ in 0..LOGS_LOOKED_AT {
            let Some(channel) = self.budget.oldest_if_over() else { return };
            let stands_at = channel.state.lock().place.map(|(at, _)| at);
            self.trim(&channel, |log| {
                // Where it stands is where its oldest was. If that is gone, it only has to move back.
                if log.oldest_at() == stands_at {
                    log.drop_oldest();
                }
            });
        }
    }

    /// Lets go of some of a log, and brings everything up to date that depends on its oldest message.
    fn trim(&self, channel: &Arc<Channel>, drop: impl FnOnce(&mut Log)) {
        let told = {
            let mut state = channel.state.lock();
            let before = state.log.bytes();
            drop(&mut state.log);
            self.budget.changed(Change { before, after: state.log.bytes() });
            if let Some(place) = state.place.take() {
                self.budget.unlist(place);
            }
            if let Some(oldest_at) = state.log.oldest_at() {
                let place = (oldest_at, channel.number());
                state.place = Some(place);
                self.budget.list(place, Arc::downgrade(channel));
            }
            self.want_age(channel, &state)
        };
        self.timeouts.tell_wheel(&channel.timer, told);
        self.retire_if_unused(channel);
    }

    fn want_age(&self, channel: &Channel, state: &State) -> Told {
        let wish = match (state.log.oldest_at(), self.log_limits.age) {
            (Some(oldest_at), Some(age)) => Wish::exact((oldest_at + age).as_nanos()),
            _ => Wish::NONE,
        };
        self.timeouts.want(&channel.timer, wish)
    }
}
