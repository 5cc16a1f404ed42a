//! Subscription of this server to one channel in Redis.

use std::sync::Arc;
use std::time::Duration;

use encke_base::quota::QuotaOwner;
use encke_core::Timestamp;
use tokio::sync::oneshot;

use super::message::{FeedMessage, OpenedChannel};
use super::opened_log::{append_opened, initial_epoch};
use super::restored::continue_restored;
use crate::channel::{ChannelGuard, ChannelName, Channels, FeedOutcome, Subscriber};
use crate::engine::error::EngineError;

/// Maximum number of messages buffered while a channel is being opened. Additional messages are read from its
/// log.
const MAX_QUEUED: usize = 1024;

/// How long a channel stays subscribed after its last local subscriber has left.
pub(super) const LINGER: Duration = Duration::from_secs(30);

/// Callers waiting for a log.
pub(super) type LogWaiters<S> = Vec<oneshot::Sender<Result<ChannelGuard<S>, EngineError>>>;

/// State of a [channel subscription](self).
#[derive(Debug)]
pub(super) struct ChannelSubscription<S: Subscriber> {
    /// Local log, once the channel has been opened.
    pub(super) guard: Option<ChannelGuard<S>>,
    /// Local log restored from an earlier process, until the channel has been opened.
    restored: Option<ChannelGuard<S>>,
    /// Creator of the local log: the first subscriber.
    pub(super) creator: QuotaOwner,
    /// Callers waiting for the log.
    pub(super) waiters: LogWaiters<S>,
    /// Whether the channel is being opened or queued for opening.
    pub(super) is_opening: bool,
    /// Whether the channel must be opened again afterwards.
    pub(super) must_reopen: bool,
    /// Whether the entire log must be read.
    pub(super) needs_full_read: bool,
    /// Whether Redis has confirmed the subscription.
    pub(super) is_subscribed: bool,
    /// Messages received before the channel was open, in order.
    queue: Vec<FeedMessage>,
    /// Number of queued messages that were received before the current opening started.
    queued_before_opening: usize,
    /// When the channel was first found without local subscribers.
    pub(super) idle_since: Option<Timestamp>,
}

/// Next step for the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    Nothing,
    /// Open the channel, because its log in Redis has messages that the local log lacks.
    Open,
}

impl<S: Subscriber> ChannelSubscription<S> {
    pub(super) fn new(creator: QuotaOwner) -> Self {
        Self {
            guard: None,
            restored: None,
            creator,
            waiters: Vec::new(),
            is_opening: false,
            must_reopen: false,
            needs_full_read: true,
            is_subscribed: false,
            queue: Vec::new(),
            queued_before_opening: 0,
            idle_since: None,
        }
    }

    /// Creates the subscription for a log restored from an earlier process.
    pub(super) fn restored(guard: ChannelGuard<S>) -> Self {
        // The creator is only used to create a log, and this log already exists.
        Self { restored: Some(guard), ..Self::new(QuotaOwner::Operator) }
    }

    /// Whether to keep the subscription, even while Redis is unreachable.
    pub(super) fn is_kept(&self) -> bool {
        self.guard.is_some() || self.restored.is_some()
    }

    /// Handles the loss of the connection. Returns whether to subscribe again after the reconnect.
    pub(super) fn disconnected(&mut self) -> bool {
        self.reply_to_all(Some(EngineError::Unavailable));
        (self.is_opening, self.must_reopen, self.is_subscribed) = (false, false, false);
        self.queue = Vec::new();
        self.is_kept()
    }

    /// Begins to open the channel. Returns the offset that precedes the first message to read.
    pub(super) fn begin_opening(&mut self) -> u64 {
        self.queued_before_opening = self.queue.len();
        match &self.guard {
            Some(guard) if !self.needs_full_read => guard.channel().last_offset(),
            _ => 0,
        }
    }

    /// Epoch of the local log, if the log can be continued.
    pub(super) fn known_epoch(&self) -> Option<Box<str>> {
        let guard = self.guard.as_ref().filter(|_| !self.needs_full_read);
        guard.map(|guard| guard.channel().epoch().into())
    }

    /// Handles a message received from Redis.
    pub(super) fn receive(&mut self, message: FeedMessage, channels: &Channels<S>) -> NextStep {
        if self.is_opening {
            if self.queue.len() < MAX_QUEUED {
                self.queue.push(message);
            } else {
                self.must_reopen = true;
            }
            return NextStep::Nothing;
        }
        match self.append(&message, channels) {
            FeedOutcome::Appended | FeedOutcome::Duplicate => NextStep::Nothing,
            FeedOutcome::Ahead => {
                self.queue.push(message);
                NextStep::Open
            }
        }
    }

    /// Ends a subscription that has no local log. Returns the buffered messages, which patterns still need,
    /// and whether some messages are missing.
    pub(super) fn into_queue(self) -> (Vec<FeedMessage>, bool) {
        (self.queue, self.must_reopen)
    }

    /// Appends a message to the local log, if it is the log's next message.
    fn append(&self, message: &FeedMessage, channels: &Channels<S>) -> FeedOutcome {
        let Some(channel) = self.guard.as_ref().map(ChannelGuard::channel) else {
            return FeedOutcome::Duplicate;
        };
        if channel.epoch() != &*message.epoch {
            return FeedOutcome::Ahead;
        }
        match message.content() {
            Some(content) => channels.feed(channel, message.offset, Duration::ZERO, &content),
            // The data is not valid JSON, so it was not published by an Encke server.
            None => {
                channels.skip_to(channel, message.offset);
                FeedOutcome::Duplicate
            }
        }
    }

    /// Handles the result of an opening. The flag in the return value is true if messages for matching
    /// patterns are missing.
    ///
    /// # Errors
    /// The local log could not be created.
    pub(super) fn handle_opened(
        &mut self,
        name: &ChannelName,
        opened: &OpenedChannel,
        channels: &Arc<Channels<S>>,
    ) -> Result<(NextStep, bool), EngineError> {
        self.is_opening = false;
        let was_subscribed = std::mem::replace(&mut self.is_subscribed, true);
        let had_all = self.guard.is_none() || self.needs_full_read;
        let of_this_epoch = self.queue.iter().filter(|message| message.epoch == opened.epoch);
        let first_queued = of_this_epoch.map(|message| message.offset).min().unwrap_or(u64::MAX);
        let mut missed = false;
        if let Some(restored) = self.restored.take() {
            let (guard, is_missing_some) =
                continue_restored(restored, opened, (initial_epoch(opened), first_queued), channels);
            (self.guard, missed) = (Some(guard), is_missing_some);
        }
        match &self.guard {
            Some(guard) if guard.channel().epoch() == &*opened.epoch => {
                // After a reconnect, patterns already know that they have missed messages.
                missed |= append_opened(guard, opened, 0, channels) && was_subscribed;
            }
            Some(_) if !had_all => {
                // The channel has a new epoch.
                self.needs_full_read = true;
                return Ok((NextStep::Open, false));
            }
            Some(old) => {
                let cut = opened.cut(old.channel().epoch());
                if let Some(new) = channels.replace_channel(old.channel(), &initial_epoch(opened)) {
                    missed = append_opened(&new, opened, first_queued, channels);
                    channels.move_subscribers(old.channel(), new.channel(), cut);
                    self.guard = Some(new);
                }
            }
            None => {
                let new = channels.acquire_with_epoch(name, &self.creator, &initial_epoch(opened))?;
                missed = append_opened(&new, opened, first_queued, channels);
                self.guard = Some(new);
            }
        }
        self.needs_full_read = false;
        let queue = std::mem::take(&mut self.queue);
        for (index, message) in queue.into_iter().enumerate() {
            if self.append(&message, channels) == FeedOutcome::Ahead && index >= self.queued_before_opening {
                self.queue.push(message);
            }
        }
        let must_open = std::mem::take(&mut self.must_reopen) || !self.queue.is_empty();
        Ok((if must_open { NextStep::Open } else { NextStep::Nothing }, missed))
    }

    /// Sends the log, or the error, to all waiting callers.
    pub(super) fn reply_to_all(&mut self, refusal: Option<EngineError>) {
        reply_to_all(&mut self.waiters, self.guard.as_ref(), refusal);
    }
}

/// Sends the log, or the error, to all waiting callers.
pub(super) fn reply_to_all<S: Subscriber>(
    waiters: &mut LogWaiters<S>,
    guard: Option<&ChannelGuard<S>>,
    refusal: Option<EngineError>,
) {
    for waiter in std::mem::take(waiters) {
        let log = guard.and_then(ChannelGuard::try_clone);
        let reply = log.filter(|_| refusal.is_none());
        // The send fails if the caller has given up.
        _ = waiter.send(reply.ok_or(refusal.unwrap_or(EngineError::Unavailable)));
    }
}
