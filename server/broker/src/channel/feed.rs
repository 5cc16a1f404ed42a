//! Logs of channels owned by an engine, which determines their contents and offsets.
//!
//! Such a log is a cache that all local sessions read. It may start at any offset and may lack messages. When
//! the channel starts a new epoch, a new log replaces the old one, and all subscribers are moved.

use std::sync::Arc;
use std::time::Duration;

use encke_base::quota::QuotaOwner;
use encke_base::trace::PublishTrace;
use encke_core::Timestamp;
use encke_core::message::Content;

use super::channels::{Channels, TooManyChannels};
use super::epoch::LogEpoch;
use super::guard::ChannelGuard;
use super::log::LogSize;
use super::message::Origin;
use super::name::ChannelName;
use super::publish::{AppendError, PublishOutcome};
use super::state::{Channel, ChannelState, Retired, SizeChange};
use super::subscribers::Subscriber;

/// Number of subscribers moved before the lock is released for others.
const MOVE_BATCH: usize = 128;

/// Result of feeding a message to a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedOutcome {
    Appended,
    /// The log contains the message, or did before.
    Duplicate,
    /// Earlier messages are missing.
    Ahead,
}

impl<S: Subscriber> Channels<S> {
    /// Returns a guard for the channel, if it exists and is [loaded](Self::finish_loading).
    pub(crate) fn acquire_loaded(self: &Arc<Self>, name: &str) -> Option<ChannelGuard<S>> {
        let guard = self.acquire_existing(self.get(name)?).ok()?;
        let is_loading = guard.channel().state.lock().is_loading;
        (!is_loading).then_some(guard)
    }

    /// Marks the log's initial contents as complete.
    pub(crate) fn finish_loading(&self, channel: &Arc<Channel<S>>) {
        let was_loading = std::mem::take(&mut channel.state.lock().is_loading);
        // Wake the subscribers restored from an earlier process, which are waiting for the log.
        if was_loading {
            self.wake_all(channel);
        }
    }

    /// Returns a guard for the channel, which is created with this epoch if it does not exist.
    ///
    /// # Errors
    /// [`TooManyChannels`] if a limit is reached.
    pub(crate) fn acquire_with_epoch(
        self: &Arc<Self>,
        name: &ChannelName,
        creator: &QuotaOwner,
        epoch: &LogEpoch,
    ) -> Result<ChannelGuard<S>, TooManyChannels> {
        loop {
            let channel = self.get_or_create_with(name, creator, || epoch.clone())?;
            match self.acquire_existing(Arc::clone(&channel)) {
                Ok(guard) => return Ok(guard),
                Err(Retired) => self.remove_from_table(&channel),
            }
        }
    }

    /// Appends a message published `age` ago, if `offset` is the log's next offset.
    pub fn feed(
        &self,
        channel: &Arc<Channel<S>>,
        offset: u64,
        age: Duration,
        content: &Content<'_>,
    ) -> FeedOutcome {
        self.feed_with(channel, offset, age, content, true)
    }

    /// Like [`feed`](Self::feed), but without appending to the patterns that match the channel, which already
    /// have the message.
    pub(crate) fn feed_alone(
        &self,
        channel: &Arc<Channel<S>>,
        offset: u64,
        age: Duration,
        content: &Content<'_>,
    ) -> FeedOutcome {
        self.feed_with(channel, offset, age, content, false)
    }

    fn feed_with(
        &self,
        channel: &Arc<Channel<S>>,
        offset: u64,
        age: Duration,
        content: &Content<'_>,
        with_patterns: bool,
    ) -> FeedOutcome {
        let last = channel.last_offset();
        if self.is_closed() {
            return FeedOutcome::Duplicate;
        }
        if offset != last + 1 {
            return if offset <= last { FeedOutcome::Duplicate } else { FeedOutcome::Ahead };
        }
        let now = self.timeouts.clock().now();
        let at = now.before(age).unwrap_or(Timestamp::from_nanos(0));
        loop {
            let patterns = if with_patterns { self.patterns_of(channel.name()) } else { Vec::new() };
            match self.append(at, channel, &patterns, content, (None, &PublishTrace::NONE)) {
                Ok(PublishOutcome::Appended(appended)) => {
                    self.finish_append(now, channel, &patterns, appended);
                    return FeedOutcome::Appended;
                }
                Err(AppendError::Retired(retired)) if !Arc::ptr_eq(retired, channel) => {
                    self.remove_from_table(retired)
                }
                // Only the caller appends to this channel, and only the caller retires it.
                _ => return FeedOutcome::Appended,
            }
        }
    }

    /// Appends a message to the patterns that match its channel, which has no local log.
    pub(crate) fn feed_patterns(&self, name: &ChannelName, epoch: &str, offset: u64, content: &Content<'_>) {
        let now = self.timeouts.clock().now();
        let origin = Origin { channel: name.clone(), epoch: epoch.into(), offset };
        loop {
            let patterns = self.patterns_of(name);
            match self.append_to_patterns(now, &patterns, &origin, content) {
                Err(AppendError::Retired(retired)) => self.remove_from_table(retired),
                Err(AppendError::Closed) => return,
                Ok(appended) => return self.finish_patterns(now, &patterns, appended),
            }
        }
    }

    /// Skips the messages up to `last`, which cannot be retrieved. Everything before them is dropped as well,
    /// and sessions that have not read that far receive a gap.
    pub(crate) fn skip_to(&self, channel: &Arc<Channel<S>>, last: u64) {
        let condition = |state: &mut ChannelState<S>| state.log.bounds().last < last && !self.is_closed();
        self.trim_if(channel, condition, |log| log.skip_to(last));
        self.wake_all(channel);
    }

    /// Replaces a log by one with a new epoch. The caller must [move](Self::move_subscribers) the subscribers
    /// once the new log has contents. Returns `None` if the log has already been replaced.
    pub(crate) fn replace_channel(
        self: &Arc<Self>,
        old: &Arc<Channel<S>>,
        epoch: &LogEpoch,
    ) -> Option<ChannelGuard<S>> {
        let new = {
            let channels = &mut self.table.write().channels;
            let entry = channels.get_mut(old.name()).filter(|found| Arc::ptr_eq(found, old))?;
            let (name, account) = (old.name().clone(), Arc::clone(old.account()));
            let new = self.new_channel(name, account, self.next_number(), epoch.clone());
            *entry = Arc::clone(&new);
            new
        };
        self.retire(old, |_| true);
        self.acquire_existing(new).ok()
    }

    /// Replaces a log that may be inconsistent after a panic by an empty one. Its subscribers receive a gap.
    #[cold]
    pub(super) fn replace_half_changed(self: &Arc<Self>, log: &Arc<Channel<S>>) {
        tracing::error!(channel = %log.name(), "panic while a message was being appended; the log is replaced");
        if let Some(new) = self.replace_channel(log, &LogEpoch::random(&self.entropy)) {
            self.move_subscribers(log, new.channel(), None);
        }
    }

    /// Removes a log, unless it has other guards or subscribers by now.
    ///
    /// # Errors
    /// Returns the guard if the log is still in use.
    pub(crate) fn remove_if_unused(&self, guard: ChannelGuard<S>) -> Result<(), ChannelGuard<S>> {
        if self.retire(guard.channel(), |state| state.has_sole_guard()) {
            self.remove_from_table(guard.channel());
            Ok(())
        } else {
            Err(guard)
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

    /// Moves all subscribers of `old` to `new`. Messages of `old` up to `cut` have the same offsets in `new`.
    pub(crate) fn move_subscribers(&self, old: &Arc<Channel<S>>, new: &Arc<Channel<S>>, cut: Option<u64>) {
        let mut from = 0;
        loop {
            let (some, _) = old.subscribers(self.registry(), from, MOVE_BATCH);
            for (index, subscriber) in &some {
                subscriber.move_to(self.registry(), old, new, cut);
                from = index + 1;
            }
            if some.len() < MOVE_BATCH {
                return;
            }
        }
    }
}
