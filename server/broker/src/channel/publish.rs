//! Appends messages to a channel's log and to the logs of the patterns that match it.
//!
//! A message is appended to all of them atomically: every log is locked before any of them changes, first the
//! channel's log, then the logs of patterns in an order that is the same for all channels. No message can be
//! read before all logs have it, and any two messages are in the same order in all logs that contain both.
//! Sessions that read several of these logs depend on this (`encke_core`'s outbox). The bytes are stored
//! once.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use encke_base::locks::MutexGuard;
use encke_base::quota::QuotaOwner;
use encke_base::trace::PublishTrace;
use encke_core::Timestamp;
use encke_core::encodings::Encodings;
use encke_core::message::{Content, Message};
use encke_core::session::outbox::LogPosition;
use encke_timeouts::ArmAction;

use super::channels::{Channels, PublishError, Published};
use super::log::{ChannelLog, LogSize};
use super::message::{LogMessage, Origin, SharedMessage};
use super::name::ChannelName;
use super::publish_ids::PublishId;
use super::state::{Channel, ChannelState, SizeChange};
use super::subscribers::Subscriber;

/// A log, locked for appending.
pub(super) struct LockedLog<'a, S> {
    pub(super) channel: &'a Arc<Channel<S>>,
    pub(super) state: MutexGuard<'a, ChannelState<S>>,
}

/// Why nothing was appended.
pub(super) enum AppendError<'a, S> {
    /// This channel has just been retired.
    Retired(&'a Arc<Channel<S>>),
    /// Appends are stopped.
    Closed,
}

/// Result of a publish.
pub(super) enum PublishOutcome {
    Appended(Appended),
    /// The publish was a repetition; contains the offset of the original message.
    Repeated(u64),
}

/// Result of an append.
pub(super) struct Appended {
    /// Offset of the message in its channel.
    offset: u64,
    channel: FollowUp,
    /// Work left for the logs of the patterns, in the order of the patterns.
    patterns: Vec<FollowUp>,
}

/// Work left for a log after it is unlocked.
pub(super) struct FollowUp {
    arm: ArmAction,
    /// Whether a sweep has been started, which the caller must run.
    sweep: bool,
    /// Whether the log belongs to a pattern that has been without subscribers for too long, and can be
    /// dropped.
    ends: bool,
}

impl<S: Subscriber> Channels<S> {
    /// Appends a message to a channel's log and to the logs of the patterns that match it, then notifies
    /// their subscribers. Creates the channel on behalf of `creator` if it does not exist. If an earlier
    /// publish with the same `id` is still known, nothing is appended, and the result of the earlier publish
    /// is returned.
    ///
    /// # Errors
    /// [`PublishError`] if a channel limit is reached or the server is draining.
    pub fn publish(
        self: &Arc<Self>,
        name: &ChannelName,
        creator: &QuotaOwner,
        content: &Content<'_>,
        id: Option<&PublishId>,
    ) -> Result<Published, PublishError> {
        self.publish_traced(name, creator, content, id, &PublishTrace::NONE)
    }

    /// Like [`publish`](Self::publish), but traces the fan-out.
    ///
    /// # Errors
    /// [`PublishError`].
    pub(crate) fn publish_traced(
        self: &Arc<Self>,
        name: &ChannelName,
        creator: &QuotaOwner,
        content: &Content<'_>,
        id: Option<&PublishId>,
        trace: &PublishTrace,
    ) -> Result<Published, PublishError> {
        let now = self.timeouts.clock().now();
        loop {
            let channel = self.get_or_create(name, creator)?;
            let patterns = self.patterns_of(name);
            let append = AssertUnwindSafe(|| self.append(now, &channel, &patterns, content, (id, trace)));
            let appended = catch_unwind(append).unwrap_or_else(|panic| {
                // Only some of the logs may contain the message.
                patterns.iter().chain([&channel]).for_each(|log| self.replace_half_changed(log));
                resume_unwind(panic)
            });
            match appended {
                Err(AppendError::Retired(retired)) => self.remove_from_table(retired),
                Err(AppendError::Closed) => {
                    self.retire_if_unused(&channel);
                    return Err(PublishError::Draining);
                }
                Ok(PublishOutcome::Repeated(offset)) => {
                    return Ok(Published { offset, epoch: channel.epoch().into() });
                }
                Ok(PublishOutcome::Appended(appended)) => {
                    self.metrics.channels.published();
                    let offset = appended.offset;
                    self.finish_append(now, &channel, &patterns, appended);
                    return Ok(Published { offset, epoch: channel.epoch().into() });
                }
            }
        }
    }

    /// Completes an append. No log may be locked.
    pub(super) fn finish_append(
        &self,
        now: Timestamp,
        channel: &Arc<Channel<S>>,
        patterns: &[Arc<Channel<S>>],
        appended: Appended,
    ) {
        // Notify the subscribers of patterns first, so that subscribers of both receive the message through
        // the pattern: it then names its positions in both logs.
        for (pattern, after) in patterns.iter().zip(appended.patterns) {
            self.follow_up(pattern, after);
        }
        self.follow_up(channel, appended.channel);
        self.enforce_budget(now);
    }

    /// Wakes the subscribers that have read to the end.
    pub(super) fn wake_all(&self, channel: &Arc<Channel<S>>) {
        let begins = channel.state.lock().sweep.published();
        if begins {
            self.fan_out.sweep(channel);
        }
    }

    pub(super) fn append<'a>(
        &self,
        now: Timestamp,
        channel: &'a Arc<Channel<S>>,
        patterns: &'a [Arc<Channel<S>>],
        content: &Content<'_>,
        (id, trace): (Option<&PublishId>, &PublishTrace),
    ) -> Result<PublishOutcome, AppendError<'a, S>> {
        let mut own = LockedLog::lock(channel)?;
        if let Some(id) = id {
            let cutoff = self.log_limits(channel).age.and_then(|age| now.before(age));
            if let Some(offset) = self.change_log(&mut own, |log| log.find_publish(id, cutoff)) {
                return Ok(PublishOutcome::Repeated(offset));
            }
        }
        let mut others = patterns.iter().map(LockedLog::lock).collect::<Result<Vec<_>, _>>()?;
        if self.is_closed() {
            return Err(AppendError::Closed);
        }
        // Encode while holding the lock, because the encoded message contains the offset.
        let offset = own.state.log.next_offset();
        let (name, epoch) = (channel.name(), channel.epoch());
        let at_ms = self.publish_time_ms(name.as_str(), content);
        let message = Message { channel: name.client_name(), epoch, offset, at_ms, content };
        let encodings = Encodings::new(&message);
        if others.is_empty() {
            let channel = self.append_locked(&mut own, now, LogMessage::Own(encodings), true);
            own.state.fan_outs.add(&trace.fan_out(name.as_str()));
            self.record_publish_id(&mut own, now, id);
            return Ok(PublishOutcome::Appended(Appended { offset, channel, patterns: Vec::new() }));
        }
        let origin = Origin { channel: channel.name().clone(), epoch: channel.shared_epoch(), offset };
        let positions = std::iter::once(&own).chain(&others).map(LockedLog::next_position).collect();
        let message = Arc::new(SharedMessage { encodings, origin, positions });
        let patterns = others
            .iter_mut()
            .map(|open| self.append_locked(open, now, LogMessage::Shared(Arc::clone(&message)), false))
            .collect();
        #[cfg(feature = "simulation")]
        encke_base::fail_point::reach(encke_base::fail_point::FailPoint::Append);
        // Append to the channel's own log last, so that no log drops the message while this function still
        // holds a reference.
        let channel = self.append_locked(&mut own, now, LogMessage::Shared(message), true);
        let fan_out = trace.fan_out(name.as_str());
        std::iter::once(&mut own).chain(&mut others).for_each(|open| open.state.fan_outs.add(&fan_out));
        self.record_publish_id(&mut own, now, id);
        Ok(PublishOutcome::Appended(Appended { offset, channel, patterns }))
    }

    /// Appends a message to patterns only, because its channel has no local log.
    pub(super) fn append_to_patterns<'a>(
        &self,
        now: Timestamp,
        patterns: &'a [Arc<Channel<S>>],
        origin: &Origin,
        content: &Content<'_>,
    ) -> Result<Vec<FollowUp>, AppendError<'a, S>> {
        let mut logs = patterns.iter().map(LockedLog::lock).collect::<Result<Vec<_>, _>>()?;
        if self.is_closed() {
            return Err(AppendError::Closed);
        }
        if logs.is_empty() {
            return Ok(Vec::new());
        }
        let Origin { channel, epoch, offset } = origin;
        let (name, offset) = (channel.as_str(), *offset);
        let message =
            Message { channel: name, epoch, offset, at_ms: self.publish_time_ms(name, content), content };
        let (encodings, positions) =
            (Encodings::new(&message), logs.iter().map(LockedLog::next_position).collect());
        let message = Arc::new(SharedMessage { encodings, origin: origin.clone(), positions });
        // Only the first log accounts for the bytes.
        let appended = logs.iter_mut().enumerate().map(|(index, open)| {
            self.append_locked(open, now, LogMessage::Shared(Arc::clone(&message)), index == 0)
        });
        Ok(appended.collect())
    }

    /// Completes an append to patterns. No log may be locked.
    pub(super) fn finish_patterns(
        &self,
        now: Timestamp,
        patterns: &[Arc<Channel<S>>],
        appended: Vec<FollowUp>,
    ) {
        if appended.is_empty() {
            return;
        }
        for (pattern, after) in patterns.iter().zip(appended) {
            self.follow_up(pattern, after);
        }
        self.enforce_budget(now);
    }

    /// Returns the publish time in milliseconds since 1970, if the channel's messages carry it.
    pub(super) fn publish_time_ms(&self, channel: &str, content: &Content<'_>) -> Option<u64> {
        let is_told = self.namespaces().rules_of(channel).at_ms;
        is_told.then(|| content.at_ms.unwrap_or_else(|| self.timeouts.clock().unix_now().as_millis()))
    }

    fn record_publish_id(&self, open: &mut LockedLog<'_, S>, now: Timestamp, id: Option<&PublishId>) {
        if let Some(id) = id {
            self.change_log(open, |log| log.record_publish_id(id.clone(), now));
        }
    }

    fn change_log<R>(
        &self,
        LockedLog { channel, state }: &mut LockedLog<'_, S>,
        change: impl FnOnce(&mut ChannelLog) -> R,
    ) -> R {
        let before = state.log.size();
        let result = change(&mut state.log);
        self.account_for(channel, state, before);
        result
    }

    fn append_locked(
        &self,
        open: &mut LockedLog<'_, S>,
        now: Timestamp,
        message: LogMessage,
        is_new: bool,
    ) -> FollowUp {
        let LockedLog { channel, state } = open;
        let before = state.log.size();
        state.log.append(now, message, is_new, self.log_limits(channel));
        self.idle.update(channel, state);
        let ends = channel.pattern().is_some() && state.is_abandoned();
        self.account_for(channel, state, before);
        if state.age_key.is_none() {
            channel.list_by_age(state);
        }
        FollowUp { arm: self.request_age(channel, state), sweep: state.sweep.published(), ends }
    }

    fn account_for(&self, channel: &Channel<S>, state: &ChannelState<S>, before: LogSize) {
        self.budget.update(channel.account(), SizeChange { before, after: state.log.size() });
    }

    fn follow_up(&self, channel: &Arc<Channel<S>>, FollowUp { arm, sweep, ends }: FollowUp) {
        self.timeouts.carry_out(&channel.timer, arm);
        if ends {
            // Check again, because the pattern may have a subscriber by now.
            self.trim_if(channel, |_| true, |_| ());
        }
        if sweep {
            self.fan_out.sweep(channel);
        }
    }
}

impl<'a, S: Subscriber> LockedLog<'a, S> {
    fn lock(channel: &'a Arc<Channel<S>>) -> Result<Self, AppendError<'a, S>> {
        let state = channel.state.lock_another();
        if state.retired { Err(AppendError::Retired(channel)) } else { Ok(Self { channel, state }) }
    }

    /// Position of the next message.
    fn next_position(&self) -> LogPosition {
        LogPosition { log: self.channel.number(), offset: self.state.log.next_offset() }
    }
}
