//! What logs lose: messages that are too old or too many, and with the last of them their places among all channels.

use std::sync::Arc;

use encke_core::Timestamp;

use super::channels::Channels;
use super::log::Log;
use super::state::{Change, Channel, State};
use super::subscribers::Subscriber;
use crate::timeouts::{ArmAction, RequestedDeadline};

/// How many logs one publish looks at to keep all within their budget. Each look frees a message, or finds that the log's
/// oldest message is younger than its position says, which happens at most once a message. So any number well above one
/// keeps up.
const LOGS_LOOKED_AT: usize = 1024;

impl<S: Subscriber> Channels<S> {
    /// The oldest message of a log may have reached its age.
    pub(crate) fn handle_timeout(&self, channel: &Arc<Channel<S>>) {
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
                // Nobody who comes later is to hear it.
                let before = state.log.size();
                state.log.clear();
                self.budget.changed(channel.account(), Change { before, after: state.log.size() });
            }
            let is_unused = state.is_unused();
            state.retired |= is_unused;
            self.idle.note(channel, &mut state);
            if !is_unused {
                return;
            }
            self.forget_age(channel, &mut state)
        };
        self.end_timer(channel, action);
        self.forget(channel);
    }

    /// The log has an age no more. Returns what is to be done once it is unlocked.
    pub(super) fn forget_age(&self, channel: &Channel<S>, state: &mut State<S>) -> ArmAction {
        channel.unlist(state);
        self.timeouts.request(&channel.timer, RequestedDeadline::NONE)
    }

    pub(super) fn end_timer(&self, channel: &Channel<S>, action: ArmAction) {
        self.timeouts.carry_out(&channel.timer, action);
        self.owners.remove(&channel.timer);
    }

    /// Drops the oldest messages of whoever has most, until the logs together are within their budget. A publish does only so much of
    /// it, and leaves the rest to the next.
    pub(super) fn keep_to_budget(&self, now: Timestamp) {
        for _ in 0..LOGS_LOOKED_AT {
            let Some(channel) = self.budget.oldest_if_over(now) else { return };
            let key = channel.state.lock().age_key.map(|(at, _)| at);
            self.trim(&channel, |log| {
                // The key is the age of what was its oldest message. If that is gone, only the key changes.
                if log.oldest_at() == key {
                    log.give_up_oldest();
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
            if state.retired || !is_right(&mut state) {
                return;
            }
            let before = state.log.size();
            drop(&mut state.log);
            if channel.pattern().is_some() && state.has_been_left() {
                state.log.clear();
            }
            self.budget.changed(channel.account(), Change { before, after: state.log.size() });
            channel.unlist(&mut state);
            channel.list(&mut state);
            self.request_age(channel, &state)
        };
        self.timeouts.carry_out(&channel.timer, action);
        self.retire_if_unused(channel);
    }

    pub(super) fn request_age(&self, channel: &Channel<S>, state: &State<S>) -> ArmAction {
        let deadline = match (state.log.oldest_at(), self.log_limits(channel).age) {
            (Some(oldest_at), Some(age)) => RequestedDeadline::exact((oldest_at + age).as_nanos()),
            _ => RequestedDeadline::NONE,
        };
        self.timeouts.request(&channel.timer, deadline)
    }
}

impl<S: Subscriber> Channel<S> {
    /// Notes its place in the order of ages, by its oldest message.
    pub(super) fn list(self: &Arc<Self>, state: &mut State<S>) {
        if let Some(oldest_at) = state.log.oldest_at() {
            let age_key = (oldest_at, self.number());
            state.age_key = Some(age_key);
            self.account().list(age_key, Arc::downgrade(self));
        }
    }

    pub(super) fn unlist(&self, state: &mut State<S>) {
        if let Some(age_key) = state.age_key.take() {
            self.account().unlist(age_key);
        }
    }
}
