//! Counts of what all subscribers received, over all rounds.

use tokio::time::Instant;

use super::ledger::Arrival;
use super::round::PublishRound;
use super::schedule::Schedule;
use crate::record::{Counter, Highest, Latency, Metrics};

#[derive(Debug)]
pub(super) struct Tally {
    /// Number of deliveries that are expected: each message counts once per subscriber.
    pub(super) expected: Counter,
    received: Counter,
    duplicated: Counter,
    misordered: Counter,
    /// Number of messages on the channel that belong to another run.
    pub(super) foreign: Counter,
    /// Number of messages of this run whose data differs from what was published.
    pub(super) corrupted: Counter,
    /// Number of messages and gaps whose seq does not follow from the previous one.
    pub(super) misnumbered: Counter,
    gaps: Counter,
    gap_messages: Counter,
    /// Time until each delivery of a message, counted from when the message was due and from when publishing
    /// it began.
    delivery: Latency,
    /// Time until the last delivery of a message.
    to_last: Latency,
    /// Deliveries per second, from when the first message was due to the last delivery; of the fastest round.
    deliveries_per_second: Highest,
}

impl Tally {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let (expected, received) = (metrics.counter("expected"), metrics.counter("received"));
        let both = (expected.clone(), received.clone());
        metrics.computed("lost", move || both.0.get().saturating_sub(both.1.get()));
        Self {
            expected,
            received,
            duplicated: metrics.counter("duplicated"),
            misordered: metrics.counter("misordered"),
            foreign: metrics.counter("foreign"),
            corrupted: metrics.counter("corrupted"),
            misnumbered: metrics.counter("misnumbered"),
            gaps: metrics.counter("gaps"),
            gap_messages: metrics.counter("gap_messages"),
            to_last: metrics.latency("latency"),
            delivery: metrics.latency("delivery_latency"),
            deliveries_per_second: metrics.highest("deliveries_per_second"),
        }
    }

    /// Returns a number that changes with everything that arrives.
    pub(super) fn arrivals(&self) -> u64 {
        let counters = [&self.received, &self.duplicated, &self.foreign, &self.corrupted, &self.gaps];
        counters.map(Counter::get).iter().sum()
    }

    pub(super) fn gap(&self, messages: u64) {
        self.gaps.increment();
        self.gap_messages.add(messages);
    }

    pub(super) fn message(&self, round: &PublishRound, schedule: &Schedule, number: u32, arrival: Arrival) {
        match arrival {
            Arrival::Duplicated => return self.duplicated.increment(),
            Arrival::Misordered => self.misordered.increment(),
            Arrival::InOrder => {}
        }
        self.received.increment();
        round.received.increment();
        let now = Instant::now();
        self.delivery.record(schedule.due(number), schedule.start_of(number), now);
        round.note_arrival(number, now);
    }

    /// Adds the times of a round that is over.
    pub(super) fn end(&self, round: &PublishRound) {
        let Some(schedule) = round.schedule.get() else { return };
        for (number, last) in (0..).zip(round.last_of.borrow().iter()) {
            if let Some(last) = last {
                self.to_last.record(schedule.due(number), schedule.start_of(number), *last);
            }
        }
        let last = round.last.get().map(|last| last.saturating_duration_since(schedule.start()));
        #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
        if let Some(took) = last.filter(|took| !took.is_zero()) {
            self.deliveries_per_second.record(round.received.get() as f64 / took.as_secs_f64());
        }
    }
}
