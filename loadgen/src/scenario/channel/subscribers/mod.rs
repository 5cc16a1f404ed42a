//! Subscribers of a channel, and the messages they received.

mod publishing;
mod receiving;
mod subscribing;

use std::cell::RefCell;
use std::rc::Rc;

use serde::Serialize;

pub(crate) use self::publishing::ConcurrentWork;
use super::round::PublishRound;
use super::tally::{Tally, TallyOutcome};
use crate::args;
use crate::client::ChannelReader;
use crate::progress::Bar;
use crate::record::{Counter, EndsOutcome, Recorder};
use crate::scenario::Setup;
use crate::scenario::answering::Answering;
use crate::scenario::connects::{Connects, ConnectsOutcome};

#[derive(Debug)]
pub(crate) struct SubscriberGroup {
    pub(crate) options: args::ChannelLoad,
    channel: String,
    reader: ChannelReader,
    /// Rounds in progress.
    rounds: RefCell<Vec<Rc<PublishRound>>>,
    pub(crate) connected: Counter,
    pub(crate) subscribed: Counter,
    /// Number of messages that the server confirmed to the publisher.
    pub(crate) published: Counter,
    tally: Rc<Tally>,
    connects: Rc<Connects>,
    pub(crate) answering: Rc<Answering>,
}

impl SubscriberGroup {
    pub(crate) fn new(options: args::ChannelLoad) -> Self {
        let channel = options.channel();
        Self {
            reader: ChannelReader::of(options.server.target, &channel),
            options,
            channel,
            rounds: RefCell::default(),
            connected: Counter::default(),
            subscribed: Counter::default(),
            published: Counter::default(),
            tally: Rc::default(),
            connects: Rc::default(),
            answering: Rc::default(),
        }
    }

    /// Creates the subscribers of another channel. They share all counters with this group.
    pub(crate) fn in_another_channel(&self, channel: String) -> Self {
        Self {
            reader: ChannelReader::of(self.options.server.target, &channel),
            options: self.options.clone(),
            channel,
            rounds: RefCell::default(),
            connected: self.connected.clone(),
            subscribed: self.subscribed.clone(),
            published: self.published.clone(),
            tally: self.tally.clone(),
            connects: self.connects.clone(),
            answering: self.answering.clone(),
        }
    }

    /// Starts these rounds, one per channel.
    pub(crate) fn begin(&self, rounds: Vec<Rc<PublishRound>>) {
        self.rounds.replace(rounds);
    }

    /// Returns a number that changes with everything that arrives and every confirmed message.
    pub(crate) fn progress(&self) -> u64 {
        self.tally.arrivals() + self.published.get()
    }

    pub(crate) fn register(&self, recorder: &Recorder) {
        recorder.counter("subscribed", &self.subscribed);
        recorder.counter("published", &self.published);
        recorder.counter("unexpected_closes", &self.answering.unexpected_closes);
        self.tally.register(recorder);
        self.connects.register(recorder);
    }

    pub(crate) fn bars(&self, setup: &Setup) -> Vec<Bar> {
        let expected = self.tally.expected(&self.rounds.borrow());
        vec![
            Bar { label: "subscribed", done: self.subscribed.get(), of: setup.load.connections.into() },
            Bar { label: "received", done: self.tally.received(), of: expected },
        ]
    }

    /// Returns the part of the outcome that covers connections and messages.
    pub(crate) fn outcome(&self, setup: &Setup) -> SubscribersOutcome {
        SubscribersOutcome {
            connected: self.connected.get(),
            subscribed: self.subscribed.get(),
            errors: setup.failures.total(),
            published: self.published.get(),
            tally: self.tally.outcome(&self.rounds.borrow()),
        }
    }

    /// Returns the part of the outcome that every scenario has for its connections.
    pub(crate) fn connections(&self) -> ConnectionsOutcome {
        ConnectionsOutcome {
            unexpected_closes: self.answering.unexpected_closes.get(),
            pings: self.answering.pings.get(),
            connects: self.connects.outcome(),
            ends: self.answering.ends.outcome(),
        }
    }
}

/// First fields of an outcome.
#[derive(Serialize)]
pub(crate) struct SubscribersOutcome {
    connected: u64,
    subscribed: u64,
    errors: u64,
    published: u64,
    #[serde(flatten)]
    tally: TallyOutcome,
}

/// Last fields of an outcome.
#[derive(Serialize)]
pub(crate) struct ConnectionsOutcome {
    unexpected_closes: u64,
    pings: u64,
    #[serde(flatten)]
    connects: ConnectsOutcome,
    #[serde(flatten)]
    ends: EndsOutcome,
}
