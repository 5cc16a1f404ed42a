//! All subscribers, and what they received.

mod publishing;
mod receiving;
mod subscribing;

use std::cell::RefCell;
use std::rc::Rc;

use serde::Serialize;

pub(crate) use self::publishing::Concurrent;
use super::round::Round;
use super::tally::{Tally, TallyOutcome};
use crate::args;
use crate::client::ChannelReader;
use crate::progress::Bar;
use crate::record::{Counter, EndsOutcome, Recorder};
use crate::scenario::Setup;
use crate::scenario::answering::Answering;
use crate::scenario::connects::{Connects, ConnectsOutcome};

#[derive(Debug)]
pub(crate) struct Subscribers {
    pub(crate) options: args::ChannelLoad,
    channel: String,
    reader: ChannelReader,
    /// Those under way at the same time.
    rounds: RefCell<Vec<Rc<Round>>>,
    pub(crate) connected: Counter,
    pub(crate) subscribed: Counter,
    /// Messages whose publishing the server confirmed.
    pub(crate) published: Counter,
    tally: Rc<Tally>,
    connects: Rc<Connects>,
    pub(crate) answering: Rc<Answering>,
}

impl Subscribers {
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

    /// Those of one more channel. All counts are of both.
    pub(crate) fn beside(&self, channel: String) -> Self {
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

    /// From now on these are under way, one a channel.
    pub(crate) fn begin(&self, rounds: Vec<Rc<Round>>) {
        self.rounds.replace(rounds);
    }

    /// Changes with everything that arrives, and with every message that is confirmed.
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

    /// The connections, and what they received.
    pub(crate) fn outcome(&self, setup: &Setup) -> SubscribersOutcome {
        SubscribersOutcome {
            connected: self.connected.get(),
            subscribed: self.subscribed.get(),
            errors: setup.failures.total(),
            published: self.published.get(),
            tally: self.tally.outcome(&self.rounds.borrow()),
        }
    }

    /// What the outcome of any scenario has of its connections.
    pub(crate) fn connections(&self) -> ConnectionsOutcome {
        ConnectionsOutcome {
            unexpected_closes: self.answering.unexpected_closes.get(),
            pings: self.answering.pings.get(),
            connects: self.connects.outcome(),
            ends: self.answering.ends.outcome(),
        }
    }
}

/// The beginning of an outcome.
#[derive(Serialize)]
pub(crate) struct SubscribersOutcome {
    connected: u64,
    subscribed: u64,
    errors: u64,
    published: u64,
    #[serde(flatten)]
    tally: TallyOutcome,
}

/// The end of an outcome.
#[derive(Serialize)]
pub(crate) struct ConnectionsOutcome {
    unexpected_closes: u64,
    pings: u64,
    #[serde(flatten)]
    connects: ConnectsOutcome,
    #[serde(flatten)]
    ends: EndsOutcome,
}
