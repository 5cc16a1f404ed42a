//! Logs of channels owned by an engine, which determines their contents and offsets.
//!
//! Such a log is a cache that all local sessions read. It may start at any offset and may lack messages.

use std::sync::Arc;
use std::time::Duration;

use encke_base::trace::PublishTrace;
use encke_core::Timestamp;
use encke_core::message::Content;

use super::append::{AppendError, PublishOutcome};
use super::channels::Channels;
use super::message::Origin;
use super::name::ChannelName;
use super::state::{Channel, ChannelState};
use super::subscriber::Subscriber;

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
        let now = self.retention().now();
        let at = now.before(age).unwrap_or(Timestamp::from_nanos(0));
        loop {
            let patterns = if with_patterns { self.table().patterns_of(channel.name()) } else { Vec::new() };
            match self.appender.append(at, channel, &patterns, content, (None, &PublishTrace::NONE)) {
                Ok(PublishOutcome::Appended(appended)) => {
                    self.appender.finish_append(now, channel, &patterns, appended);
                    return FeedOutcome::Appended;
                }
                Err(AppendError::Retired(retired)) if !Arc::ptr_eq(retired, channel) => {
                    self.table().remove(retired)
                }
                // Only the caller appends to this channel, and only the caller retires it.
                _ => return FeedOutcome::Appended,
            }
        }
    }

    /// Appends a message to the patterns that match its channel, which has no local log.
    pub(crate) fn feed_patterns(&self, name: &ChannelName, epoch: &str, offset: u64, content: &Content<'_>) {
        let now = self.retention().now();
        let origin = Origin { channel: name.clone(), epoch: epoch.into(), offset };
        loop {
            let patterns = self.table().patterns_of(name);
            match self.appender.append_to_patterns(now, &patterns, &origin, content) {
                Err(AppendError::Retired(retired)) => self.table().remove(retired),
                Err(AppendError::Closed) => return,
                Ok(appended) => return self.appender.finish_patterns(now, &patterns, appended),
            }
        }
    }

    /// Skips the messages up to `last`, which cannot be retrieved. Everything before them is dropped as well,
    /// and sessions that have not read that far receive a gap.
    pub(crate) fn skip_to(&self, channel: &Arc<Channel<S>>, last: u64) {
        let condition = |state: &mut ChannelState<S>| state.log.bounds().last < last && !self.is_closed();
        self.retention().trim_if(channel, condition, |log| log.skip_to(last));
        self.appender.wake_all(channel);
    }
}
