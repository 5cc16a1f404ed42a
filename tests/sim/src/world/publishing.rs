//! Publishes through the API, and the record of everything published.

use encke_core::message::ContentKind;
use encke_server::testing::simulation::MessageView;
use rand::RngExt;

use super::Simulation;
use crate::scenario::MILLI;
use crate::schedule::Action;
use crate::truth::{LOGS, MAX_CHANNELS, START_MS, name_of, text_of};

impl Simulation {
    pub(super) fn record_published_with_patterns(&mut self, channel: usize) {
        self.record_published(channel);
        (MAX_CHANNELS..LOGS).for_each(|pattern| self.record_published(pattern));
    }

    pub(crate) fn record_published(&mut self, log: usize) {
        let (server, redis, name) = (&self.server, self.inputs.redis.as_ref(), name_of(log));
        let present = match redis {
            None => server.channel(name).map(|view| (view.epoch, view.last)),
            Some(redis) => redis.lock().state_of(name),
        };
        let Some(present) = present else { return self.truth.removed(log) };
        let view =
            |(offset, data)| MessageView { offset, channel: name.to_owned(), kind: ContentKind::Data, data };
        let after = |since| match redis {
            None => server.history(name, since),
            Some(redis) => redis.lock().history(name, since).into_iter().map(view).collect(),
        };
        let now_ms = START_MS + self.now / MILLI;
        match self.truth.observe(log, present, now_ms, after) {
            Ok(observed) => {
                self.totals.published += if log < MAX_CHANNELS { observed.count } else { 0 };
                if observed.count > 0 {
                    self.check_log(log);
                }
                self.misses_messages |= observed.misses_some;
                for number in observed.numbers.iter().filter(|_| log < MAX_CHANNELS) {
                    if let Err(what) = self.message_appears(*number, log) {
                        self.violate("publishes", what);
                    }
                }
                self.follow_joins_and_leaves(log, observed);
            }
            Err(what) => self.violate("logs", what),
        }
    }

    pub(super) fn publish(&mut self) {
        if !self.is_busy() {
            return;
        }
        let channel = self.rng.random_range(0..self.scenario.channels);
        let burst = if self.rng.random_ratio(1, 10) { self.rng.random_range(1..40) } else { 1 };
        for _ in 0..burst {
            let text = self.next_text();
            // The publish fails if the maximum number of channels is reached.
            let result = match &self.inputs.redis {
                None => self.server.publish(name_of(channel), &text),
                // With Redis, another server publishes the message.
                Some(redis) if !redis.lock().is_down => {
                    Ok(redis.lock().publish_as_peer(name_of(channel), &text))
                }
                Some(_) => Err("Redis is down".to_owned()),
            };
            self.trace.log(self.now, format_args!("the API publishes to {channel}: {result:?}"));
            self.record_published_with_patterns(channel);
        }
        self.plan_within(self.scenario.publish_pause, Action::Publish);
    }

    /// Returns the text of the next message, of random length.
    pub(crate) fn next_text(&mut self) -> String {
        let length = self.rng.random_range(0..self.scenario.max_message_bytes);
        text_of(self.truth.next_number(), length)
    }
}
