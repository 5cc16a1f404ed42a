//! Appends messages to a channel's log and to the logs of the patterns that match it.
//!
//! A message is appended to all of them atomically: every log is locked before any of them changes, first the
//! channel's log, then the logs of patterns in an order that is the same for all channels. No message can be
//! read before all logs have it, and any two messages are in the same order in all logs that contain both.
//! Sessions that read several of these logs depend on this (`encke_core`'s outbox). The bytes are stored
//! once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(feature = "simulation")]
use encke_base::fail_point::{self, FailPoint};
use encke_base::locks::MutexGuard;
use encke_base::trace::PublishTrace;
use encke_core::Timestamp;
use encke_core::dialect::json::EncodedMessage;
use encke_core::message::{Content, Message};
use encke_core::session::outbox::LogPosition;
use encke_timeouts::ArmAction;

use super::fan_out::FanOut;
use super::log::ChannelLog;
use super::message::{LogMessage, Origin, SharedMessage};
use super::publish_ids::PublishId;
use super::retention::LogRetention;
use super::state::{Channel, ChannelState};
use super::subscriber::Subscriber;

/// A log, locked for appending.
struct LockedLog<'a, S> {
    channel: &'a Arc<Channel<S>>,
    state: MutexGuard<'a, ChannelState<S>>,
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
    pub(super) offset: u64,
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

/// Appends messages to logs, and notifies the subscribers.
#[derive(Debug)]
pub(super) struct LogAppender<S: Subscriber> {
    pub(super) retention: LogRetention<S>,
    pub(super) fan_out: Arc<FanOut<S>>,
    /// Whether appends are stopped. Read while holding the lock of a log.
    closed: AtomicBool,
}

impl<S: Subscriber> LogAppender<S> {
    pub(super) fn new(retention: LogRetention<S>, fan_out: FanOut<S>) -> Self {
        Self { retention, fan_out: Arc::new(fan_out), closed: AtomicBool::new(false) }
    }

    /// Stops all appends. An append that is in progress still completes, so the contents of a log are final
    /// once its lock has been acquired after this call.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Allows appends again.
    pub(super) fn reopen(&self) {
        self.closed.store(false, Ordering::Release);
    }

    /// Whether appends are stopped.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
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
        self.retention.enforce_budget(now);
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
            let cutoff = self.retention.log_limits(channel).age.and_then(|age| now.before(age));
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
        let (name, epoch) = (channel.name(), channel.named_epoch());
        let at_ms = self.publish_time_ms(name.as_str(), content);
        let message = Message { channel: name.client_name(), epoch, offset, at_ms, content };
        let encoded = EncodedMessage::new(&message);
        if others.is_empty() {
            let channel = self.append_locked(&mut own, now, LogMessage::Own(encoded), true);
            own.state.fan_outs.add(&trace.fan_out(name.as_str()));
            self.record_publish_id(&mut own, now, id);
            return Ok(PublishOutcome::Appended(Appended { offset, channel, patterns: Vec::new() }));
        }
        let origin = Origin { channel: channel.name().clone(), epoch: channel.shared_epoch(), offset };
        let positions = std::iter::once(&own).chain(&others).map(LockedLog::next_position).collect();
        let message = Arc::new(SharedMessage { encoded, origin, positions });
        let patterns = others
            .iter_mut()
            .map(|open| self.append_locked(open, now, LogMessage::Shared(Arc::clone(&message)), false))
            .collect();
        #[cfg(feature = "simulation")]
        fail_point::reach(FailPoint::Append);
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
        let name = origin.channel.as_str();
        let at_ms = self.publish_time_ms(name, content);
        let message = Message { channel: name, epoch: None, offset: origin.offset, at_ms, content };
        let (encoded, positions) =
            (EncodedMessage::new(&message), logs.iter().map(LockedLog::next_position).collect());
        let message = Arc::new(SharedMessage { encoded, origin: origin.clone(), positions });
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
        self.retention.enforce_budget(now);
    }

    /// Returns the publish time in milliseconds since 1970, if the channel's messages carry it.
    pub(super) fn publish_time_ms(&self, channel: &str, content: &Content<'_>) -> Option<u64> {
        let is_told = self.retention.namespaces.rules_of(channel).at_ms;
        is_told
            .then(|| content.at_ms.unwrap_or_else(|| self.retention.timeouts.clock().unix_now().as_millis()))
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
        self.retention.account_for(channel, state, before);
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
        state.log.append(now, message, is_new, self.retention.log_limits(channel));
        self.retention.update_idle(channel, state);
        let ends = channel.pattern().is_some() && state.is_abandoned();
        self.retention.account_for(channel, state, before);
        if state.age_key.is_none() {
            channel.list_by_age(state);
        }
        FollowUp { arm: self.retention.request_age(channel, state), sweep: state.sweep.published(), ends }
    }

    fn follow_up(&self, channel: &Arc<Channel<S>>, FollowUp { arm, sweep, ends }: FollowUp) {
        self.retention.timeouts.carry_out(&channel.timer, arm);
        if ends {
            // Check again, because the pattern may have a subscriber by now.
            self.retention.trim(channel, |_| ());
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
