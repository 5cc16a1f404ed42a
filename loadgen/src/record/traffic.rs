//! Traffic on all connections of a run. The connections count it themselves, regardless of the scenario.

use std::cell::Cell;
use std::rc::Rc;

use super::counts::{ConnectionEnds, Counter};
use crate::result::summed;
use crate::transport::websocket::ConnectionEnd;

/// Traffic of a run. Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Rc<TrafficCounts>);

#[derive(Debug, Default)]
struct TrafficCounts {
    open: Cell<u64>,
    peak: Cell<u64>,
    connects: Counter,
    messages: Counter,
    pings: Counter,
    closes: Counter,
    ends: ConnectionEnds,
}

/// Guard that counts a connection as open until dropped.
#[derive(Debug)]
pub(crate) struct ConnectionGuard(Traffic);

impl Traffic {
    /// Counts a new connection, which has not received its hello yet.
    pub(crate) fn opened(&self) -> ConnectionGuard {
        self.0.open.set(self.0.open.get() + 1);
        self.0.peak.set(self.0.peak.get().max(self.0.open.get()));
        ConnectionGuard(self.clone())
    }

    pub(crate) fn open(&self) -> u64 {
        self.0.open.get()
    }

    pub(crate) fn pings(&self) -> u64 {
        self.0.pings.get()
    }

    pub(super) fn counters(&self) -> [(&'static str, &Counter); 4] {
        let TrafficCounts { connects, messages, pings, closes, .. } = &*self.0;
        [("connects", connects), ("messages", messages), ("pings", pings), ("closes", closes)]
    }

    pub(super) fn ends(&self) -> &ConnectionEnds {
        &self.0.ends
    }

    pub(crate) fn summary(&self) -> TrafficSummary {
        let TrafficCounts { connects, messages, pings, closes, .. } = &*self.0;
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

impl ConnectionGuard {
    /// Records that the connection received its hello, or is not expected to receive one.
    pub(crate) fn record_hello(&self) {
        self.0.0.connects.increment();
    }

    pub(crate) fn record_ping(&self) {
        self.0.0.pings.increment();
    }

    pub(crate) fn record_message(&self) {
        self.0.0.messages.increment();
    }

    pub(crate) fn record_end(&self, end: ConnectionEnd) {
        self.0.0.closes.increment();
        self.0.0.ends.record(end);
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let open = &self.0.0.open;
        open.set(open.get() - 1);
    }
}
