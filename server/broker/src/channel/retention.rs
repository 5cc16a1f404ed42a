//! Retention of logs: drops messages that are too old or exceed a limit, and removes channels whose logs have
//! become empty.

use std::sync::Arc;

use encke_base::entropy::Entropy;
use encke_base::quota::{FairEviction, QuotaOwner};
use encke_core::Timestamp;
use encke_timeouts::{ArmAction, RequestedDeadline, Timeouts};

use super::budget::Budget;
use super::epoch::LogEpoch;
use super::idle::IdleChannels;
use super::kept_positions::KeptPositions;
use super::log::{ChannelLog, LogSize, SizeChange};
use super::name::ChannelName;
use super::namespaces::{LogLimits, Namespaces};
use super::state::{Channel, ChannelState, Retired};
use super::table::{ChannelTable, TooManyChannels};

/// Maximum number of logs that one publish examines to keep all logs within their budget. Each step frees a
/// message, or finds that a log's oldest message is younger than the log's key says, which happens at most
/// once per message. Any number well above one is therefore enough to keep up.
const MAX_LOGS_EXAMINED: usize = 1024;

/// The channels, with everything that determines how long their logs are kept.
#[derive(Debug)]
pub(super) struct LogRetention<S> {
    pub(super) table: ChannelTable<S>,
    pub(super) namespaces: Arc<Namespaces>,
    budget: Budget<Channel<S>>,
    idle: IdleChannels,
    pub(super) positions: KeptPositions,
    pub(super) timeouts: Arc<Timeouts>,
}

impl<S: Copy> LogRetention<S> {
    pub(super) fn new(table: ChannelTable<S>, namespaces: Arc<Namespaces>, timeouts: Arc<Timeouts>) -> Self {
        let budget = Budget::new(namespaces.total_bytes());
        let positions = KeptPositions::new(namespaces.kept_positions());
        Self { table, namespaces, budget, idle: IdleChannels::default(), positions, timeouts }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.timeouts.clock().now()
    }

    pub(super) fn log_limits(&self, channel: &Channel<S>) -> &LogLimits {
        &self.namespaces.rules_of(channel.name().as_str()).log
    }

    /// Bytes held by all logs.
    pub(super) fn bytes(&self) -> usize {
        self.budget.bytes()
    }

    #[cfg(test)]
    pub(super) fn has_no_accounts(&self) -> bool {
        self.table.has_no_accounts() && self.budget.is_empty()
    }

    /// Returns the channel with this name, or creates it with the given epoch. If the limit of the server or of
    /// an address is reached, an idle channel is evicted first.
    pub(super) fn get_or_create(
        &self,
        name: &ChannelName,
        creator: &QuotaOwner,
        epoch: impl Fn() -> LogEpoch,
    ) -> Result<Arc<Channel<S>>, TooManyChannels> {
        loop {
            let reached = match self.table.get_or_create(name, creator, &epoch) {
                Ok(channel) => return Ok(channel),
                Err(reached) => reached,
            };
            let is_evicted = match reached {
                TooManyChannels::Server { .. } => self.evict_idle(FairEviction::evict),
                // Unrelated clients may share an address, so evict one of its channels instead of failing.
                TooManyChannels::Address { .. } => self.evict_idle(|idle| idle.evict_from(creator)),
                TooManyChannels::User { .. } => false,
            };
            if !is_evicted {
                return Err(reached);
            }
        }
    }

    /// Returns the epoch of a log to be created: its former one, if that is still known, or a new one.
    pub(super) fn epoch_of(&self, name: &ChannelName, entropy: &Entropy) -> LogEpoch {
        self.positions.take(name.as_str()).unwrap_or_else(|| LogEpoch::random(entropy))
    }

    /// Evicts the idle channel that `take` selects, with its log. Returns false if `take` finds no channel.
    fn evict_idle(&self, take: impl Fn(&mut FairEviction<ChannelName>) -> Option<ChannelName>) -> bool {
        loop {
            let Some(name) = self.idle.take(&take) else { return false };
            let Some(channel) = self.table.get(name.as_str()) else { continue };
            let mut ends = false;
            self.trim_if(
                &channel,
                |state| {
                    // The channel has just been taken from the list, and may have a subscriber by now.
                    state.idle_number = None;
                    ends = state.is_idle();
                    ends
                },
                |log| log.clear(),
            );
            if ends {
                return true;
            }
        }
    }

    /// Adds a guard to the channel, unless it is being removed from the table.
    pub(super) fn add_guard(&self, channel: &Channel<S>) -> Result<(), Retired> {
        channel.add_guard(|state| self.idle.update(channel, state))
    }

    /// Updates the list of idle channels after a message has been appended.
    pub(super) fn update_idle(&self, channel: &Channel<S>, state: &mut ChannelState<S>) {
        self.idle.update(channel, state);
    }

    /// Accounts for a change of a locked log, whose size was `before`.
    pub(super) fn account_for(&self, channel: &Channel<S>, state: &ChannelState<S>, before: LogSize) {
        self.budget.update(channel.account(), SizeChange { before, after: state.log.size() });
    }

    /// Replaces the contents of a log, unless it is retired or `is_closed` returns true.
    pub(super) fn install(&self, channel: &Arc<Channel<S>>, log: ChannelLog, is_closed: impl Fn() -> bool) {
        let action = {
            let mut state = channel.state.lock();
            if is_closed() || state.retired {
                return;
            }
            let before = std::mem::replace(&mut state.log, log).size();
            self.account_for(channel, &state, before);
            channel.unlist_by_age(&mut state);
            channel.list_by_age(&mut state);
            self.request_age(channel, &state)
        };
        self.timeouts.carry_out(&channel.timer, action);
    }

    /// Drops expired messages, after the timer for the log's oldest message has expired.
    pub(super) fn handle_timeout(&self, channel: &Arc<Channel<S>>) {
        let Some(age) = self.log_limits(channel).age else { return };
        if let Some(cutoff) = self.now().before(age) {
            self.trim(channel, |log| log.drop_up_to(cutoff));
        }
    }

    /// Retires a channel if `condition` holds, and returns whether it did. A retired channel can no longer be
    /// joined. Its messages stay readable for sessions that may have to send them again.
    pub(super) fn retire(
        &self,
        channel: &Arc<Channel<S>>,
        condition: impl FnOnce(&ChannelState<S>) -> bool,
    ) -> bool {
        let action = {
            let mut state = channel.state.lock();
            if state.retired || !condition(&state) {
                return false;
            }
            state.retired = true;
            let change = SizeChange { before: state.log.size(), after: LogSize::default() };
            self.budget.update(channel.account(), change);
            self.cancel_age_timer(channel, &mut state)
        };
        self.remove_timer(channel, action);
        true
    }

    /// Retires a channel that is in no table.
    pub(super) fn retire_unlisted(&self, channel: &Channel<S>) {
        channel.state.lock().retired = true;
        self.table.remove_timer(&channel.timer);
    }

    pub(super) fn retire_if_unused(&self, channel: &Arc<Channel<S>>) {
        let action = {
            let mut state = channel.state.lock();
            if channel.name().is_direct() && state.is_idle() {
                // Later subscribers must not receive earlier direct messages.
                let before = state.log.size();
                state.log.clear();
                self.account_for(channel, &state, before);
            }
            let is_unused = state.is_unused();
            // A pattern without a log misses messages, so it must not continue at its position.
            if is_unused
                && !channel.is_remote()
                && !channel.name().is_direct()
                && !channel.name().is_pattern()
            {
                self.positions.keep(channel.name().as_str(), channel.epoch(), state.log.bounds().last);
            }
            state.retired |= is_unused;
            self.idle.update(channel, &mut state);
            if !is_unused {
                return;
            }
            self.cancel_age_timer(channel, &mut state)
        };
        self.remove_timer(channel, action);
        self.table.remove(channel);
    }

    /// Cancels the log's age timer. Returns the action to carry out after unlocking.
    fn cancel_age_timer(&self, channel: &Channel<S>, state: &mut ChannelState<S>) -> ArmAction {
        channel.unlist_by_age(state);
        self.timeouts.request(&channel.timer, RequestedDeadline::NONE)
    }

    fn remove_timer(&self, channel: &Channel<S>, action: ArmAction) {
        self.timeouts.carry_out(&channel.timer, action);
        self.table.remove_timer(&channel.timer);
    }

    /// Drops the oldest messages of the creators with the largest logs, until all logs are within their
    /// budget. The work for one publish is bounded; the next publish continues.
    pub(super) fn enforce_budget(&self, now: Timestamp) {
        for _ in 0..MAX_LOGS_EXAMINED {
            let Some(channel) = self.budget.log_to_trim(now) else { return };
            let key = channel.state.lock().age_key.map(|(at, _)| at);
            self.trim(&channel, |log| {
                // The key may belong to a message that is no longer the oldest. If so, drop nothing: only the
                // key is updated.
                if log.oldest_at() == key {
                    log.evict_oldest();
                }
            });
        }
    }

    /// Drops some messages of a log, and updates everything that depends on its oldest message.
    pub(super) fn trim(&self, channel: &Arc<Channel<S>>, drop: impl FnOnce(&mut ChannelLog)) {
        self.trim_if(channel, |_| true, drop);
    }

    /// Like [`trim`](Self::trim), but only if `condition` holds.
    pub(super) fn trim_if(
        &self,
        channel: &Arc<Channel<S>>,
        condition: impl FnOnce(&mut ChannelState<S>) -> bool,
        drop: impl FnOnce(&mut ChannelLog),
    ) {
        let action = {
            let mut state = channel.state.lock();
            if state.retired || !condition(&mut state) {
                return;
            }
            let before = state.log.size();
            drop(&mut state.log);
            if channel.pattern().is_some() && state.is_abandoned() {
                state.log.clear();
            }
            self.account_for(channel, &state, before);
            channel.unlist_by_age(&mut state);
            channel.list_by_age(&mut state);
            self.request_age(channel, &state)
        };
        self.timeouts.carry_out(&channel.timer, action);
        self.retire_if_unused(channel);
    }

    pub(super) fn request_age(&self, channel: &Channel<S>, state: &ChannelState<S>) -> ArmAction {
        let deadline = match (state.log.oldest_at(), self.log_limits(channel).age) {
            (Some(oldest_at), Some(age)) => RequestedDeadline::exact((oldest_at + age).as_nanos()),
            _ => RequestedDeadline::NONE,
        };
        self.timeouts.request(&channel.timer, deadline)
    }
}
