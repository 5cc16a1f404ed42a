//! What passes over all connections of a run, whatever the scenario: counted where it passes.

use std::cell::Cell;
use std::rc::Rc;

use super::counts::{Counter, Ends};
use crate::result::summed;
use crate::transport::websocket::End;

/// A clone is the same one.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Rc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    open: Cell<u64>,
    peak: Cell<u64>,
    connects: Counter,
    messages: Counter,
    pings: Counter,
    closes: Counter,
    ends: Ends,
}

/// One connection, as long as it is kept.
#[derive(Debug)]
pub(crate) struct Live(Traffic);

impl Traffic {
    /// A connection is there; it has not said hello yet.
    pub(crate) fn opened(&self) -> Live {
        self.0.open.set(self.0.open.get() + 1);
        self.0.peak.set(self.0.peak.get().max(self.0.open.get()));
        Live(self.clone())
    }

    pub(crate) fn open(&self) -> u64 {
        self.0.open.get()
    }

    pub(crate) fn pings(&self) -> u64 {
        self.0.pings.get()
    }

    pub(super) fn counters(&self) -> [(&'static str, &Counter); 4] {
        let Counts { connects, messages, pings, closes, .. } = &*self.0;
        [("connects", connects), ("messages", messages), ("pings", pings), ("closes", closes)]
    }

    pub(super) fn ends(&self) -> &Ends {
        &self.0.ends
    }

    pub(crate) fn summary(&self) -> TrafficSummary {
        let Counts { connects, messages, pings, closes, .. } = &*self.0;
        TrafficSummary {
            connects: connects.get(),
            messages: messages.get(),
            pings: pings.get(),
            closes: closes.get(),
            frame_faults: self.0.ends.faults(),
            connections_max: self.0.peak.get(),
        }
    }
}

summed! {
    /// The `traffic` part of the result.
    pub(crate) struct TrafficSummary {
        connects: u64,
        messages: u64,
        pings: u64,
        closes: u64,
        frame_faults: u64,
        pub(super) connections_max: u64,
    }
}

impl Live {
    /// It has said hello, or is not expected to say any.
    pub(crate) fn greeted(&self) {
        self.0.0.connects.increment();
    }

    pub(crate) fn saw_ping(&self) {
        self.0.0.pings.increment();
    }

    pub(crate) fn saw_message(&self) {
        self.0.0.messages.increment();
    }

    pub(crate) fn ended(&self, end: End) {
        self.0.0.closes.increment();
        self.0.0.ends.record(end);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let open = &self.0.0.open;
        open.set(open.get() - 1);
    }
}
