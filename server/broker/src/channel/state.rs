use std::sync::{Arc, Weak};

use encke_base::locks::{Mutex, MutexGuard, level};
use encke_base::trace::FanOutTraces;
use encke_core::Timestamp;
use encke_core::dialect::json::EncodedPattern;
use encke_core::session::outbox::{LogBounds, LogPosition, SubscriptionSlot};
use encke_timeouts::{TimerCell, TimerOwners};

use super::budget::{AgeKey, CreatorAccount};
use super::epoch::LogEpoch;
use super::log::ChannelLog;
use super::message::LogMessage;
use super::name::ChannelName;
use super::occupancy::Occupancy;
use super::subscribers::{SubscriberKey, Subscribers};
use super::sweep::Sweep;

/// A channel. Owned by the channel table and by its subscribers.
#[derive(Debug)]
pub struct Channel<S> {
    name: ChannelName,
    /// Epoch of the log. Offsets from different epochs cannot be compared.
    epoch: Arc<str>,
    /// See [`LogEpoch::past`].
    past: Box<[(Box<str>, u64)]>,
    /// Whether the engine, not this process, owns the log.
    is_remote: bool,
    /// Fields common to all messages delivered through this pattern; `None` if the channel is not a pattern.
    pattern: Option<EncodedPattern>,
    /// Unique among all channels of this process.
    number: u64,
    /// Account of the creator.
    account: Arc<CreatorAccount<Self>>,
    /// Counts the subscribers of each channel, if occupancy events are enabled.
    occupancy: Option<Arc<Occupancy>>,
    /// Expires when the oldest message reaches its maximum age. The deadline is requested while the state is
    /// locked.
    pub(super) timer: Arc<TimerCell>,
    pub(super) state: Mutex<ChannelState<S>, level::Log>,
}

/// State guarded by the channel's lock.
#[derive(Debug)]
pub(super) struct ChannelState<S> {
    pub(super) log: ChannelLog,
    pub(super) subscribers: Subscribers<S>,
    pub(super) sweep: Sweep,
    /// Traced messages whose subscribers are being notified.
    pub(super) fan_outs: FanOutTraces,
    /// Key in the account's order by age.
    pub(super) age_key: Option<AgeKey>,
    /// Number in the list of idle channels, if nothing uses the channel.
    pub(super) idle_number: Option<u64>,
    /// Offset of the newest message when the last subscriber left.
    pub(super) last_at_leave: u64,
    /// Number of [guards](super::guard::ChannelGuard).
    guards: usize,
    /// See [`LogEpoch::is_loading`].
    pub(super) is_loading: bool,
    /// Whether the channel is being removed from the table. Code that has found it there must look it up
    /// again.
    pub(super) retired: bool,
}

impl<S> Default for ChannelState<S> {
    fn default() -> Self {
        Self {
            log: ChannelLog::default(),
            subscribers: Subscribers::default(),
            sweep: Sweep::default(),
            fan_outs: FanOutTraces::default(),
            age_key: None,
            idle_number: None,
            last_at_leave: 0,
            guards: 0,
            is_loading: false,
            retired: false,
        }
    }
}

impl<S: Copy> ChannelState<S> {
    /// Whether the channel has neither subscribers nor guards.
    pub(super) fn is_idle(&self) -> bool {
        !self.retired && self.guards == 0 && self.subscribers.len() == 0
    }

    /// Whether the channel has exactly one guard and no subscribers.
    pub(super) fn has_sole_guard(&self) -> bool {
        self.guards == 1 && self.subscribers.len() == 0
    }

    /// Whether the log of an idle pattern has dropped messages published after the last subscriber left. Such
    /// a log is useless: no former subscriber could resume without a gap.
    pub(super) fn is_abandoned(&self) -> bool {
        self.idle_number.is_some() && self.log.bounds().first > self.last_at_leave + 1
    }

    /// Whether the channel is idle, not yet retired, and its log is empty.
    pub(super) fn is_unused(&self) -> bool {
        self.is_idle() && self.log.len() == 0
    }
}

/// Error returned when the channel is being removed from the table.
#[derive(Clone, Copy, Debug)]
pub struct Retired;

/// Snapshot of a channel's public properties.
#[derive(Clone, Debug)]
pub struct ChannelView {
    pub name: ChannelName,
    pub epoch: String,
    pub bounds: LogBounds,
    pub messages: usize,
    pub bytes: usize,
    pub subscribers: usize,
}

impl<S: Copy> Channel<S> {
    pub(super) fn new(
        owners: &TimerOwners<Self>,
        name: ChannelName,
        account: Arc<CreatorAccount<Self>>,
        number: u64,
        LogEpoch { id: epoch, last, past, is_loading }: LogEpoch,
        occupancy: Option<Arc<Occupancy>>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            pattern: name.is_pattern().then(|| EncodedPattern::new(name.as_str(), &epoch)),
            name,
            account,
            epoch,
            past,
            is_remote: is_loading,
            number,
            occupancy,
            timer: owners.new_timer(Weak::clone(this)),
            state: Mutex::new(ChannelState {
                log: ChannelLog::starting_after(last),
                is_loading,
                ..ChannelState::default()
            }),
        })
    }

    pub fn name(&self) -> &ChannelName {
        &self.name
    }

    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Whether the log continues after message `offset` of `epoch`: it contains, or did contain, every later
    /// message.
    pub fn continues_from(&self, epoch: &str, offset: u64) -> bool {
        self.continued_up_to(epoch).is_some_and(|cut| offset <= cut)
    }

    /// Returns the offset of the last message of an epoch that is valid in this log. `None` if the epoch is
    /// unknown.
    pub fn continued_up_to(&self, epoch: &str) -> Option<u64> {
        if *self.epoch == *epoch {
            return Some(u64::MAX);
        }
        self.past.iter().find(|(past, _)| **past == *epoch).map(|(_, cut)| *cut)
    }

    /// Whether this is the log's epoch, or an earlier one that it continues.
    pub(crate) fn knows_epoch(&self, epoch: &str) -> bool {
        self.continued_up_to(epoch).is_some()
    }

    /// See [`LogEpoch::named`].
    pub(super) fn named_epoch(&self) -> Option<&str> {
        (!self.past.is_empty()).then_some(&*self.epoch)
    }

    /// See [`LogEpoch::past`].
    pub(super) fn past_epochs(&self) -> &[(Box<str>, u64)] {
        &self.past
    }

    pub(super) fn shared_epoch(&self) -> Arc<str> {
        Arc::clone(&self.epoch)
    }

    /// Fields that all messages delivered through this pattern have in common; `None` if the channel is not a
    /// pattern.
    pub fn pattern(&self) -> Option<&EncodedPattern> {
        self.pattern.as_ref()
    }

    /// Whether the engine owns the log and this process only caches it.
    pub fn is_remote(&self) -> bool {
        self.is_remote
    }

    pub(super) fn account(&self) -> &Arc<CreatorAccount<Self>> {
        &self.account
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Offset of the newest message.
    pub fn last_offset(&self) -> u64 {
        self.state.lock().log.bounds().last
    }

    /// Locks the log for reading.
    #[track_caller]
    pub fn read(&self) -> LogReader<'_, S> {
        LogReader(self.state.lock())
    }

    /// Publish time of the oldest message.
    #[cfg(feature = "simulation")]
    pub fn oldest_at(&self) -> Option<Timestamp> {
        self.state.lock().log.oldest_at()
    }

    /// Returns a snapshot of the channel's public properties.
    pub fn view(&self) -> ChannelView {
        let state = self.state.lock();
        ChannelView {
            name: self.name.clone(),
            epoch: self.epoch.to_string(),
            bounds: state.log.bounds(),
            messages: state.log.len(),
            bytes: state.log.size().bytes,
            subscribers: state.subscribers.len(),
        }
    }

    /// Returns a [page](Subscribers::page) of subscribers, and the number of all that presence lists.
    pub(super) fn subscribers(
        &self,
        from: usize,
        limit: usize,
        is_wanted: impl Fn(&S, bool) -> bool,
    ) -> (Vec<(usize, S)>, usize) {
        let state = self.state.lock();
        (state.subscribers.page(from, limit, is_wanted), state.subscribers.listed_len())
    }

    /// Number of changes to the list of subscribers since the channel was created.
    pub fn subscriber_changes(&self) -> u64 {
        self.state.lock().subscribers.changes()
    }

    /// Sets whether presence lists a subscriber, as it does from the beginning.
    pub fn set_listed(&self, key: SubscriberKey, is_listed: bool) {
        self.state.lock().subscribers.set_listed(key, is_listed);
    }

    /// Whether presence lists a subscriber.
    pub fn is_listed(&self, key: SubscriberKey) -> bool {
        self.state.lock().subscribers.is_listed(key)
    }

    /// Removes a subscriber. Does nothing if the key is no longer valid.
    pub fn remove_subscriber(&self, key: SubscriberKey) {
        let mut state = self.state.lock();
        // The index of a removed subscriber may be reused, so it must not be reported again.
        if !state.subscribers.remove(key) {
            return;
        }
        if let Some(occupancy) = &self.occupancy {
            occupancy.left(&self.name);
        }
    }

    pub(super) fn add_guard(&self, then: impl FnOnce(&mut ChannelState<S>)) -> Result<(), Retired> {
        let mut state = self.state.lock();
        if state.retired {
            return Err(Retired);
        }
        state.guards += 1;
        then(&mut state);
        Ok(())
    }

    pub(super) fn remove_guard(&self) {
        self.state.lock().guards -= 1;
    }

    /// Adds a subscriber. The caller must hold a [guard](super::guard::ChannelGuard).
    ///
    /// `join` receives the log's bounds, decides where the subscriber starts to read, and calls the given
    /// function with the subscriber's slot for this channel. The lock is held throughout, so nothing is
    /// published in between.
    ///
    /// # Errors
    /// [`Retired`] if another channel has just replaced this one, despite the guard.
    pub fn join<R>(
        &self,
        subscriber: S,
        join: impl FnOnce(LogBounds, &mut dyn FnMut(SubscriptionSlot) -> SubscriberKey) -> R,
    ) -> Result<R, Retired> {
        let mut state = self.state.lock();
        if state.retired {
            return Err(Retired);
        }
        let bounds = state.log.bounds();
        Ok(join(bounds, &mut |slot| {
            if let Some(occupancy) = &self.occupancy {
                occupancy.joined(&self.name);
            }
            state.subscribers.add(subscriber, slot)
        }))
    }

    /// Whether the channel has exactly one guard and no subscribers.
    pub(crate) fn has_sole_guard(&self) -> bool {
        self.state.lock().has_sole_guard()
    }

    /// Inserts the log into the account's order by age, keyed by its oldest message.
    pub(super) fn list_by_age(self: &Arc<Self>, state: &mut ChannelState<S>) {
        if let Some(oldest_at) = state.log.oldest_at() {
            let age_key = (oldest_at, self.number());
            state.age_key = Some(age_key);
            self.account().list(age_key, Arc::downgrade(self));
        }
    }

    pub(super) fn unlist_by_age(&self, state: &mut ChannelState<S>) {
        if let Some(age_key) = state.age_key.take() {
            self.account().unlist(age_key);
        }
    }
}

impl<S: Copy> Channel<S> {
    /// Restores a subscriber from an earlier process, and marks it as waiting for new messages.
    pub fn restore_subscriber(&self, subscriber: S, slot: SubscriptionSlot) -> Option<SubscriberKey> {
        let mut state = self.state.lock();
        if state.retired {
            return None;
        }
        let key = state.subscribers.add(subscriber, slot);
        state.subscribers.set_waiting(key);
        if let Some(occupancy) = &self.occupancy {
            occupancy.restored(&self.name);
        }
        Some(key)
    }
}

/// A channel's log, locked for reading.
#[derive(Debug)]
pub struct LogReader<'a, S>(MutexGuard<'a, ChannelState<S>>);

impl<S: Copy> LogReader<'_, S> {
    /// Bounds of the log; empty while it is [loading](Self::is_loading).
    pub fn bounds(&self) -> LogBounds {
        if self.0.is_loading { LogBounds { first: 1, last: 0 } } else { self.0.log.bounds() }
    }

    /// Whether the log's contents have not been loaded yet. Until then, even messages that were already sent
    /// cannot be sent again.
    pub fn is_loading(&self) -> bool {
        self.0.is_loading
    }

    /// Messages from `offset` on.
    pub fn since(&self, offset: u64) -> impl Iterator<Item = &LogMessage> {
        self.0.log.since(offset).map(|(_, _, message)| message)
    }

    /// Positions of the message at `offset` in all logs that share it.
    pub fn positions(&self, offset: u64) -> &[LogPosition] {
        self.since(offset).next().map_or(&[], LogMessage::positions)
    }

    /// Time at which the message at `offset` was added to the log, and the message.
    pub fn at(&self, offset: u64) -> Option<(Timestamp, &LogMessage)> {
        let (found, at, message) = self.0.log.since(offset).next()?;
        (found == offset).then_some((at, message))
    }

    /// Marks the subscriber as waiting, after it has read to the end of the log.
    pub fn set_waiting(&mut self, subscriber: SubscriberKey) {
        self.0.subscribers.set_waiting(subscriber);
    }
}
