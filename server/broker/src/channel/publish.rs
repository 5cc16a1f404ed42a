//! Publishing of messages, which creates the channel if necessary.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use encke_base::quota::QuotaOwner;
use encke_base::trace::PublishTrace;
use encke_core::message::Content;

use super::append::{AppendError, PublishOutcome};
use super::channels::Channels;
use super::name::ChannelName;
use super::publish_ids::PublishId;
use super::subscriber::Subscriber;
use super::table::TooManyChannels;

/// Why a publish failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    #[error(transparent)]
    TooManyChannels(#[from] TooManyChannels),
    #[error("the server is shutting down and accepts no more messages")]
    Draining,
}

/// Position of a published message in its channel's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    pub offset: u64,
    pub epoch: Box<str>,
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
        let now = self.retention().now();
        loop {
            let retention = self.retention();
            let channel =
                retention.get_or_create(name, creator, || retention.epoch_of(name, &self.entropy))?;
            let patterns = self.table().patterns_of(name);
            let append =
                AssertUnwindSafe(|| self.appender.append(now, &channel, &patterns, content, (id, trace)));
            let appended = catch_unwind(append).unwrap_or_else(|panic| {
                // Only some of the logs may contain the message.
                patterns.iter().chain([&channel]).for_each(|log| self.replace_half_changed(log));
                resume_unwind(panic)
            });
            match appended {
                Err(AppendError::Retired(retired)) => self.table().remove(retired),
                Err(AppendError::Closed) => {
                    self.retention().retire_if_unused(&channel);
                    return Err(PublishError::Draining);
                }
                Ok(PublishOutcome::Repeated(offset)) => {
                    return Ok(Published { offset, epoch: channel.epoch().into() });
                }
                Ok(PublishOutcome::Appended(appended)) => {
                    self.metrics.channels.published();
                    let offset = appended.offset;
                    self.appender.finish_append(now, &channel, &patterns, appended);
                    return Ok(Published { offset, epoch: channel.epoch().into() });
                }
            }
        }
    }
}
