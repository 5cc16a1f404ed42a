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
    reader: ChannelReader,
    round: RefCell<Rc<Round>>,
    pub(crate) connected: Counter,
    pub(crate) subscribed: Counter,
    /// Messages whose publishing the server confirmed.
    published: Counter,
    tally: Tally,
    connects: Connects,
    pub(crate) answering: Answering,
}

impl Subscribers {
    pub(crate) fn new(options: args::ChannelLoad) -> Self {
        Self {
            reader: ChannelReader::of(options.server.target, &options.channel()),
            options,
            round: RefCell::default(),
            connected: Counter::default(),
            subscribed: Counter::default(),
            published: Counter::default(),
            tally: Tally::default(),
            connects: Connects::default(),
            answering: Answering::default(),
        }
    }

    pub(crate) fn register(&self, recorder: &Recorder) {
        recorder.counter("subscribed", &self.subscribed);
        recorder.counter("published", &self.published);
        recorder.counter("unexpected_closes", &self.answering.unexpected_closes);
        self.tally.register(recorder);
        self.connects.register(recorder);
    }

    pub(crate) fn bars(&self, setup: &Setup) -> Vec<Bar> {
        let expected = self.tally.expected(&self.round.borrow());
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
            tally: self.tally.outcome(&self.round.borrow()),
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
