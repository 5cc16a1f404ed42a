//! Opens channels for the feed task, in batches.

use futures_util::FutureExt;

use super::FeedTask;
use crate::channel::{ChannelName, Subscriber, new_epoch};
use crate::engine::error::EngineError;
use crate::engine::redis::channel_subscription::{ChannelSubscription, NextStep, reply_to_all};
use crate::engine::redis::client::{SubscribeRequest, has_position};
use crate::engine::redis::errors::describe;
use crate::engine::redis::live_connection::LiveConnection;
use crate::engine::redis::opening::{MAX_BATCH, MAX_FULL_READS, OpenRequest, OpenResults, open};

/// Maximum number of batches in progress.
const MAX_OPENINGS: usize = 4;

impl<S: Subscriber> FeedTask<S> {
    pub(super) fn handle_request(
        &mut self,
        SubscribeRequest { channel, creator, since, reply }: SubscribeRequest<S>,
    ) {
        let subscription =
            self.subscriptions.entry(channel.clone()).or_insert_with(|| ChannelSubscription::new(creator));
        // The log may have been opened since the request was made.
        if let Some(guard) = &subscription.guard
            && has_position(guard.channel(), since.as_ref())
        {
            return reply_to_all(&mut vec![reply], Some(guard), None);
        }
        subscription.waiters.push(reply);
        subscription.waiters.retain(|waiter| !waiter.is_closed());
        self.queue_opening(channel);
    }

    pub(super) fn queue_opening(&mut self, channel: ChannelName) {
        if let Some(subscription) = self.subscriptions.get_mut(&channel) {
            if subscription.is_opening {
                subscription.must_reopen = true;
            } else {
                subscription.is_opening = true;
                self.to_open.push_back(channel);
            }
        }
    }

    pub(super) fn queue_all(&mut self) {
        let channels: Vec<_> = self.subscriptions.keys().cloned().collect();
        for channel in channels {
            self.queue_opening(channel);
        }
    }

    pub(super) fn begin_openings(&mut self, connected: &mut LiveConnection) {
        while connected.openings.len() < MAX_OPENINGS && !self.to_open.is_empty() {
            let (mut batch, mut full_reads) = (Vec::new(), 0);
            while batch.len() < MAX_BATCH && full_reads < MAX_FULL_READS {
                let Some(channel) = self.to_open.pop_front() else { break };
                let Some(subscription) = self.subscriptions.get_mut(&channel) else { continue };
                let after = subscription.begin_opening();
                let known_epoch = subscription.known_epoch();
                full_reads += usize::from(known_epoch.is_none());
                let subscribe = !subscription.is_subscribed;
                let new_epoch = new_epoch(&self.client.entropy);
                batch.push(OpenRequest { channel, after, known_epoch, subscribe, new_epoch });
            }
            if batch.is_empty() {
                // All channels of the batch have been removed in the meantime.
                continue;
            }
            connected
                .openings
                .push(open(batch, connected.connections.clone(), self.client.keys.clone()).boxed());
        }
    }

    /// Handles all pushes received so far: those that arrived before the channels were read, and possibly
    /// later ones.
    pub(super) fn handle_pushes(&mut self, connected: &mut LiveConnection) {
        for _ in 0..connected.pushes.len() {
            if let Some(push) = connected.pushes.take() {
                self.pushed(push, connected);
            }
        }
    }

    pub(super) fn handle_opened(&mut self, results: OpenResults, connected: &LiveConnection) {
        self.client.channels.metrics().engine.channels_opened(results.len());
        for (channel, result) in results {
            let Some(subscription) = self.subscriptions.get_mut(&channel) else { continue };
            let outcome = match result {
                Ok(opened) => subscription.handle_opened(&channel, &opened, &self.client.channels),
                Err(error) => {
                    let error = describe(&error);
                    tracing::warn!(%channel, error, "cannot read a channel from Redis: it is unavailable for now");
                    subscription.is_opening = false;
                    Err(EngineError::Unavailable)
                }
            };
            match outcome {
                Ok((next, missed)) => {
                    if next == NextStep::Nothing {
                        subscription.reply_to_all(None);
                    }
                    if missed {
                        self.patterns.handle_missed(&channel);
                    }
                    if next == NextStep::Open {
                        self.queue_opening(channel);
                    }
                }
                Err(error) => {
                    subscription.reply_to_all(Some(error));
                    if !subscription.is_kept() {
                        self.remove_without_log(&channel, connected);
                    }
                }
            }
        }
    }

    /// Ends a subscription that has no local log. Buffered messages go only to patterns.
    fn remove_without_log(&mut self, channel: &ChannelName, connected: &LiveConnection) {
        let Some(subscription) = self.subscriptions.remove(channel) else { return };
        connected.unsubscribe(channel, &self.client);
        let (queue, is_incomplete) = subscription.into_queue();
        for message in queue {
            self.patterns.receive(channel.as_str(), &message);
        }
        if is_incomplete {
            self.patterns.handle_missed(channel);
        }
    }
}
