//! Everyone who subscribes, and all that they have had.

mod publishing;
mod receiving;
mod subscribing;

use std::cell::RefCell;
use std::rc::Rc;

pub(crate) use self::publishing::Concurrent;
use super::round::Round;
use super::tally::Tally;
use crate::args;
use crate::client::ChannelReader;
use crate::progress::Bar;
use crate::record::{Counter, Recorder};
use crate::result::Group;
use crate::scenario::Setup;
use crate::scenario::answering::Answering;
use crate::scenario::connects::Connects;

#[derive(Debug)]
pub(crate) struct Subscribers {
    pub(crate) options: args::ChannelLoad,
    reader: ChannelReader,
    round: RefCell<Rc<Round>>,
    pub(crate) connected: Counter,
    pub(crate) subscribed: Counter,
    /// The messages that the server said it has published.
    published: Counter,
    tally: Tally,
    connects: Connects,
    pub(crate) answering: Answering,
}

impl Subscribers {
    pub(crate) fn new(options: args::ChannelLoad) -> Self {
        Self {
            reader: ChannelReader::new(&options.channel),
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

    /// The connections, and what they have had.
    pub(crate) fn outcome(&self, setup: &Setup) -> Group {
        Group::default()
            .with("connected", self.connected.get())
            .with("subscribed", self.subscribed.get())
            .with("errors", setup.failures.total())
            .with("published", self.published.get())
            .and(self.tally.outcome(&self.round.borrow()))
    }

    /// What can be said of the connections of any scenario.
    pub(crate) fn connections(&self) -> Group {
        Group::default()
            .with("unexpected_closes", self.answering.unexpected_closes.get())
            .with("pings", self.answering.pings.get())
            .and(self.connects.outcome())
            .and(self.answering.ends.outcome())
    }
}
