//! Counts of what all sessions received.

use crate::record::{Counter, Metrics};

#[derive(Debug)]
pub(super) struct NodesTally {
    /// Number of deliveries that are expected: each message counts once per subscription.
    pub(super) expected: Counter,
    pub(super) received: Counter,
    /// Number of messages that were not received, and that a gap covers.
    pub(super) covered: Counter,
    pub(super) duplicated: Counter,
    pub(super) misordered: Counter,
    /// Number of messages that were received again after a gap without a range.
    pub(super) repeated: Counter,
    /// Number of messages and gaps whose seq does not follow from the previous one, and of hellos with a wrong
    /// seq.
    pub(super) misnumbered: Counter,
    /// Number of deliveries with an offset that differs from the message's offset: the message is in its channel
    /// twice.
    pub(super) doubled: Counter,
    /// Number of messages that are not from this run, or have the wrong data.
    pub(super) foreign: Counter,
    gaps: Counter,
    gap_messages: Counter,
}

impl NodesTally {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let [expected, received, covered] =
            ["expected", "received", "covered"].map(|name| metrics.counter(name));
        let counters = [expected.clone(), received.clone(), covered.clone()];
        metrics.computed("lost", move || {
            let [expected, received, covered] = counters.each_ref().map(Counter::get);
            expected.saturating_sub(received + covered)
        });
        Self {
            expected,
            received,
            covered,
            duplicated: metrics.counter("duplicated"),
            misordered: metrics.counter("misordered"),
            repeated: metrics.counter("repeated"),
            misnumbered: metrics.counter("misnumbered"),
            doubled: metrics.counter("doubled"),
            foreign: metrics.counter("foreign"),
            gaps: metrics.counter("gaps"),
            gap_messages: metrics.counter("gap_messages"),
        }
    }

    /// Counts a gap with these offsets, if it has a range.
    pub(super) fn gap(&self, offsets: Option<(u64, u64)>) {
        self.gaps.increment();
        self.gap_messages.add(offsets.map_or(0, |(from, to)| (to + 1).saturating_sub(from)));
    }
}
