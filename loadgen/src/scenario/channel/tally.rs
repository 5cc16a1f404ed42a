//! Counts of what all subscribers received, over all rounds.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use super::ledger::Arrival;
use super::round::PublishRound;
use super::schedule::Schedule;
use crate::record::{Counter, Latency, Recorder};
use crate::result::Distribution;

#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Number of deliveries: each message counts once per subscriber.
    received: Counter,
    duplicated: Counter,
    misordered: Counter,
    /// Number of messages on the channel that belong to another run.
    foreign: Counter,
    /// Number of messages of this run whose data differs from what was published.
    corrupted: Counter,
    /// Number of messages and gaps whose seq does not follow from the previous one.
    misnumbered: Counter,
    gaps: Counter,
    /// Total number of messages that the gaps cover.
    gap_messages: Counter,
    /// Time until each delivery of a message, counted from when the message was due and from when publishing
    /// it began.
    latency: Latency,
    /// Expected deliveries of finished rounds.
    expected: Counter,
    to_last: Latency,
    took: Cell<Duration>,
}

impl Tally {
    pub(super) fn register(&self, recorder: &Recorder) {
        recorder.counters([
            ("received", &self.received),
            ("duplicated", &self.duplicated),
            ("misordered", &self.misordered),
            ("foreign", &self.foreign),
            ("corrupted", &self.corrupted),
            ("misnumbered", &self.misnumbered),
            ("gaps", &self.gaps),
            ("gap_messages", &self.gap_messages),
        ]);
        recorder.latency("delivery_latency", &self.latency);
    }

    /// Returns a number that changes with everything that arrives.
    pub(super) fn arrivals(&self) -> u64 {
        self.received.get() + self.duplicated.get() + self.unknown() + self.gaps.get()
    }

    fn unknown(&self) -> u64 {
        self.foreign.get() + self.corrupted.get()
    }

    pub(super) fn received(&self) -> u64 {
        self.received.get()
    }

    /// Returns the number of expected deliveries in all finished rounds and in `rounds`.
    pub(super) fn expected(&self, rounds: &[Rc<PublishRound>]) -> u64 {
        self.expected.get() + rounds.iter().map(|round| round.expected()).sum::<u64>()
    }

    pub(super) fn foreign(&self) {
        self.foreign.increment();
    }

    pub(super) fn corrupted(&self) {
        self.corrupted.increment();
    }

    pub(super) fn misnumbered(&self) {
        self.misnumbered.increment();
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
        self.latency.record(schedule.due(number), schedule.start_of(number), now);
        round.note_arrival(number, now);
    }

    /// Adds a finished round.
    pub(super) fn add(&self, round: &PublishRound) {
        self.expected.add(round.expected());
        record_last(round, &self.to_last);
        self.took.set(self.took.get() + took(round));
    }

    /// Returns the outcome of all finished rounds and of `rounds`.
    pub(super) fn outcome(&self, rounds: &[Rc<PublishRound>]) -> TallyOutcome {
        let expected = self.expected(rounds);
        let to_last = self.to_last.snapshot();
        rounds.iter().for_each(|round| record_last(round, &to_last));
        TallyOutcome {
            expected,
            received: self.received.get(),
            lost: expected.saturating_sub(self.received.get()),
            duplicated: self.duplicated.get(),
            misordered: self.misordered.get(),
            foreign: self.foreign.get(),
            corrupted: self.corrupted.get(),
            misnumbered: self.misnumbered.get(),
            gaps: self.gaps.get(),
            gap_messages: self.gap_messages.get(),
            latency_ms: to_last.since_due(),
            latency_from_start_ms: to_last.since_start(),
            delivery_latency_ms: self.latency.since_due(),
            delivery_latency_from_start_ms: self.latency.since_start(),
            deliveries_per_second: self.rate(rounds),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    fn rate(&self, rounds: &[Rc<PublishRound>]) -> Option<f64> {
        let longest = rounds.iter().map(|round| took(round)).max().unwrap_or_default();
        let took = self.took.get() + longest;
        (!took.is_zero()).then(|| self.received.get() as f64 / took.as_secs_f64())
    }
}

#[derive(Serialize)]
pub(super) struct TallyOutcome {
    expected: u64,
    received: u64,
    lost: u64,
    duplicated: u64,
    misordered: u64,
    foreign: u64,
    corrupted: u64,
    misnumbered: u64,
    gaps: u64,
    gap_messages: u64,
    latency_ms: Distribution,
    latency_from_start_ms: Distribution,
    delivery_latency_ms: Distribution,
    delivery_latency_from_start_ms: Distribution,
    deliveries_per_second: Option<f64>,
}

/// Records one sample per message: the time from when the message was due to its last delivery.
fn record_last(round: &PublishRound, latency: &Latency) {
    let Some(schedule) = round.schedule.get() else { return };
    for (number, last) in (0..).zip(round.last_of.borrow().iter()) {
        if let Some(last) = last {
            latency.record(schedule.due(number), schedule.start_of(number), *last);
        }
    }
}

/// Returns the time from when the first message was due to the last delivery.
fn took(round: &PublishRound) -> Duration {
    let last = round.last.get().zip(round.start());
    last.map_or(Duration::ZERO, |(last, start)| last.saturating_duration_since(start))
}
