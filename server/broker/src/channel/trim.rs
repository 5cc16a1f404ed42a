//! Drops messages that are too old or exceed a limit, and removes channels whose logs have become empty.

use std::sync::Arc;

use encke_core::Timestamp;
use encke_timeouts::{ArmAction, RequestedDeadline};

use super::channels::Channels;
use super::log::ChannelLog;
use super::state::{Channel, ChannelState, SizeChange};
use super::subscribers::Subscriber;

/// Maximum number of logs that one publish examines to keep all logs within their budget. Each step frees a
/// message, or finds that a log's oldest message is younger than the log's key says, which happens at most
/// once per message. Any number well above one is therefore enough to keep up.
const MAX_LOGS_EXAMINED: usize = 1024;

impl<S: Subscriber> Channels<S> {
    /// Drops expired messages, after the timer for the log's oldest message has expired.
    pub fn handle_timeout(&self, channel: &Arc<Channel<S>>) {
        let Some(age) = self.log_limits(channel).age else { return };
        let now = self.timeouts.clock().now();
        if let Some(cutoff) = now.before(age) {
            self.trim(channel, |log| log.drop_up_to(cutoff));
        }
    }

    pub(super) fn retire_if_unused(&self, channel: &Arc<Channel<S>>) {
        let action = {
            let mut state = channel.state.lock();
            if channel.name().is_direct() && state.is_idle() {
                // Later subscribers must not receive earlier direct messages.
                let before = state.log.size();
                state.log.clear();
                self.budget.update(channel.account(), SizeChange { before, after: state.log.size() });
            }
            let is_unused = state.is_unused();
            state.retired |= is_unused;
            self.idle.update(channel, &mut state);
            if !is_unused {
                return;
            }
            self.cancel_age_timer(channel, &mut state)
        };
        self.remove_timer(channel, action);
        self.remove_from_table(channel);
    }

    /// Cancels the log's age timer. Returns the action to carry out after unlocking.
    pub(super) fn cancel_age_timer(&self, channel: &Channel<S>, state: &mut ChannelState<S>) -> ArmAction {
        channel.unlist_by_age(state);
        self.timeouts.request(&channel.timer, RequestedDeadline::NONE)
    }

    pub(super) fn remove_timer(&self, channel: &Channel<S>, action: ArmAction) {
        self.timeouts.carry_out(&channel.timer, action);
        self.owners.remove(&channel.timer);
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
    fn trim(&self, channel: &Arc<Channel<S>>, drop: impl FnOnce(&mut ChannelLog)) {
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
            self.budget.update(channel.account(), SizeChange { before, after: state.log.size() });
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

impl<S: Subscriber> Channel<S> {
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
