//! Logs restored from a snapshot whose contents must be read from Redis, or whose engine has changed. Other servers
//! may have appended messages to Redis in the meantime. If memory has replaced Redis, the logs start a new epoch.
//!
//! Sessions keep their subscriptions. They cannot read a log while it is loading, not even messages that were
//! already sent, so that nothing is reported missing before the engine's contents are known.

use std::sync::Arc;
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::dialect::json::EncodedMessage;
use encke_core::message::{Content, Message};

use super::channels::Channels;
use super::epoch::LogEpoch;
use super::guard::ChannelGuard;
use super::log::ChannelLog;
use super::message::LogMessage;
use super::state::Channel;
use super::subscriber::Subscriber;

/// A message of a log, as retrieved from the engine.
#[derive(Debug)]
pub(crate) struct LoadedMessage<'a> {
    pub offset: u64,
    /// Time since the publish.
    pub age: Duration,
    /// `None` if the message cannot be retrieved.
    pub content: Option<Content<'a>>,
}

impl<S: Subscriber> Channels<S> {
    /// Marks the log's initial contents as complete.
    pub(crate) fn finish_loading(&self, channel: &Arc<Channel<S>>) {
        let was_loading = std::mem::take(&mut channel.state.lock().is_loading);
        // Wake the subscribers restored from an earlier process, which are waiting for the log.
        if was_loading {
            self.appender.wake_all(channel);
        }
    }

    /// Starts a new epoch for each of these logs. Their subscribers receive a gap.
    pub fn reset_epoch<'a>(self: &Arc<Self>, restored: impl IntoIterator<Item = &'a Arc<Channel<S>>>) {
        for old in restored {
            let epoch = LogEpoch::random(&self.entropy);
            if let Some(new) = self.replace_channel(old, &epoch) {
                self.finish_loading(old);
                self.move_subscribers(old, new.channel(), None);
            }
        }
    }

    /// Marks a log as loading, until the engine provides its contents. Returns `None` and removes the log if
    /// it has no subscribers.
    pub(crate) fn begin_loading(self: &Arc<Self>, channel: &Arc<Channel<S>>) -> Option<ChannelGuard<S>> {
        let guard = self.acquire_if_subscribed(channel)?;
        channel.state.lock().is_loading = true;
        Some(guard)
    }

    /// Returns a guard for the log, or removes the log and returns `None` if it has no subscribers.
    pub(crate) fn acquire_if_subscribed(
        self: &Arc<Self>,
        channel: &Arc<Channel<S>>,
    ) -> Option<ChannelGuard<S>> {
        if self.retention().retire(channel, |state| state.subscribers.len() == 0) {
            self.table().remove(channel);
            return None;
        }
        self.acquire_existing(Arc::clone(channel)).ok()
    }

    /// Replaces the log's contents with `messages` from the engine, oldest first. The newest offset becomes
    /// `last`, unless it is already higher. Does nothing once channels are closed.
    pub(crate) fn replace_log<'a>(
        &self,
        channel: &Arc<Channel<S>>,
        messages: impl Iterator<Item = LoadedMessage<'a>>,
        last: u64,
    ) {
        let now = self.retention().now();
        let known = channel.last_offset();
        let mut log = ChannelLog::default();
        for LoadedMessage { offset, age, content } in messages {
            if offset > log.next_offset() {
                log.skip_to(offset - 1);
            }
            match content {
                _ if offset < log.next_offset() => {}
                None => log.skip_to(offset),
                Some(content) => {
                    let message = Message {
                        channel: channel.name().as_str(),
                        epoch: channel.named_epoch(),
                        offset,
                        at_ms: self.appender.publish_time_ms(channel.name().as_str(), &content),
                        content: &content,
                    };
                    let at = now.before(age).unwrap_or(Timestamp::from_nanos(0));
                    log.append(
                        at,
                        LogMessage::Own(EncodedMessage::new(&message)),
                        true,
                        self.retention().log_limits(channel),
                    );
                }
            }
        }
        if last.max(known) > log.bounds().last {
            log.skip_to(last.max(known));
        }
        self.retention().install(channel, log, || self.is_closed());
        self.retention().enforce_budget(now);
    }
}
