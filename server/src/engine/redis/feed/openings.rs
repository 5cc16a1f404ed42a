//! Channels that the task opens, in batches, and what it finds.

use futures_util::FutureExt;

use super::Feed;
use crate::channel::{ChannelName, Subscriber, new_epoch};
use crate::engine::EngineError;
use crate::engine::redis::connected::Connected;
use crate::engine::redis::connection::describe;
use crate::engine::redis::following::{Following, Next};
use crate::engine::redis::link::Request;
use crate::engine::redis::opening::{MOST_NEW, MOST_WHOLE, Opening, ToOpen, open};

/// Questions to Redis about channels at a time.
const MOST_OPENINGS: usize = 4;

impl<S: Subscriber> Feed<S> {
    pub(super) fn requested(&mut self, Request { channel, maker, answer }: Request<S>) {
        let following = self.following.entry(channel.clone()).or_insert_with(|| Following::new(maker));
        following.waiting.push(answer);
        following.waiting.retain(|waiting| !waiting.is_closed());
        if following.hold.is_some() {
            following.answer_all(None);
        } else {
            self.wants_open(channel);
        }
    }

    pub(super) fn wants_open(&mut self, channel: ChannelName) {
        if let Some(following) = self.following.get_mut(&channel) {
            if following.is_opening {
                following.opens_again = true;
            } else {
                following.is_opening = true;
                self.to_open.push_back(channel);
            }
        }
    }

    pub(super) fn open_all(&mut self) {
        let channels: Vec<_> = self.following.keys().cloned().collect();
        for channel in channels {
            self.wants_open(channel);
        }
    }

    pub(super) fn begin_openings(&mut self, connected: &mut Connected) {
        while connected.openings.len() < MOST_OPENINGS && !self.to_open.is_empty() {
            let (mut batch, mut whole) = (Vec::new(), 0);
            while batch.len() < MOST_NEW && whole < MOST_WHOLE {
                let Some(channel) = self.to_open.pop_front() else { break };
                let Some(following) = self.following.get_mut(&channel) else { continue };
                let after = following.begin_opening();
                let known = following.known_epoch();
                whole += usize::from(known.is_none());
                let subscribe = !following.is_subscribed;
                let new_epoch = new_epoch(&self.link.entropy);
                batch.push(ToOpen { channel, after, known, subscribe, new_epoch });
            }
            if batch.is_empty() {
                // Nobody waits for those any more.
                continue;
            }
            connected.openings.push(open(batch, connected.up.clone(), self.link.keys.clone()).boxed());
        }
    }

    /// Everything that has come: before channels were read, and perhaps after.
    pub(super) fn take_pushes(&mut self, connected: &mut Connected) {
        for _ in 0..connected.pushes.len() {
            if let Some(push) = connected.pushes.take() {
                self.pushed(push, connected);
            }
        }
    }

    pub(super) fn opened(&mut self, opening: Opening, connected: &Connected) {
        self.link.channels.metrics().engine.opened(opening.len());
        for (channel, result) in opening {
            let Some(following) = self.following.get_mut(&channel) else { continue };
            let outcome = match result {
                Ok(opened) => following.opened(&channel, &opened, &self.link.channels),
                Err(error) => {
                    tracing::warn!(%channel, "a channel cannot be read: {}", describe(&error));
                    following.is_opening = false;
                    Err(EngineError::Unavailable)
                }
            };
            match outcome {
                Ok((next, missed)) => {
                    if next == Next::Nothing {
                        following.answer_all(None);
                    }
                    if missed {
                        self.patterns.missed(&channel);
                    }
                    if next == Next::Open {
                        self.wants_open(channel);
                    }
                }
                Err(error) => {
                    following.answer_all(Some(error));
                    if !following.stays() {
                        self.give_up(&channel, connected);
                    }
                }
            }
        }
    }

    /// There is no log of this channel here. What has come for it is for patterns alone.
    fn give_up(&mut self, channel: &ChannelName, connected: &Connected) {
        let Some(following) = self.following.remove(channel) else { return };
        connected.unsubscribe(channel, &self.link);
        let (queue, is_some) = following.give_up();
        for told in queue {
            self.patterns.told(channel.as_str(), &told);
        }
        if is_some {
            self.patterns.missed(channel);
        }
    }
}
