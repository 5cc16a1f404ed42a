//! What all subscribers together have had, over all rounds.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

use super::course::Course;
use super::ledger::Arrival;
use super::round::Round;
use crate::counts::Counter;
use crate::histogram::Times;
use crate::report::Group;

#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Each message once a subscriber, however often it came.
    received: Counter,
    duplicated: Counter,
    misordered: Counter,
    /// Messages of the channel that are not of this run.
    foreign: Counter,
    gaps: Counter,
    /// What the gaps name.
    gap_messages: Counter,
    /// From when a message was due to each of its deliveries; and from when it was sent, which hides what held its publisher
    /// up.
    response: Times,
    service: Times,
    /// Of the rounds that are over: what was expected, and from when the first message was due to the last delivery.
    expected: Counter,
    last: Times,
    took: Cell<Duration>,
}

impl Tally {
    /// Changes with everything that arrives.
    pub(super) fn arrivals(&self) -> u64 {
        self.received.get() + self.duplicated.get() + self.foreign.get() + self.gaps.get()
    }

    pub(super) fn received(&self) -> u64 {
        self.received.get()
    }

    pub(super) fn expected(&self, round: &Round) -> u64 {
        self.expected.get() + round.expected()
    }

    pub(super) fn foreign(&self) {
        self.foreign.increment();
    }

    pub(super) fn gap(&self, messages: u64) {
        self.gaps.increment();
        self.gap_messages.add(messages);
    }

    pub(super) fn message(&self, round: &Round, course: &Course, number: u32, arrival: Arrival) {
        match arrival {
            Arrival::Duplicated => return self.duplicated.increment(),
            Arrival::Misordered => self.misordered.increment(),
            Arrival::InOrder => {}
        }
        self.received.increment();
        round.received.increment();
        let now = Instant::now();
        self.response.record(now.saturating_duration_since(course.due(number)));
        let sent_at = round.sent.borrow().get(number as usize).copied().flatten();
        if let Some(sent_at) = sent_at {
            self.service.record(now.saturating_duration_since(sent_at));
        }
        round.note_arrival(number);
    }

    /// A round is over.
    pub(super) fn add(&self, round: &Round) {
        self.expected.add(round.expected());
        record_last(round, &self.last);
        self.took.set(self.took.get() + took(round));
    }

    /// Of all rounds that are over, and of one that is not.
    pub(super) fn outcome(&self, round: &Round) -> Group {
        let expected = self.expected(round);
        let last = self.last.clone();
        record_last(round, &last);
        Group::default()
            .with("expected", expected)
            .with("received", self.received.get())
            .with("lost", expected.saturating_sub(self.received.get()))
            .with("duplicated", self.duplicated.get())
            .with("misordered", self.misordered.get())
            .with("foreign", self.foreign.get())
            .with("gaps", self.gaps.get())
            .with("gap_messages", self.gap_messages.get())
            .with("latency_ms", last.summary())
            .with("delivery_latency_ms", self.response.summary())
            .with("delivery_service_ms", self.service.summary())
            .with("deliveries_per_second", self.rate(round))
    }

    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    fn rate(&self, round: &Round) -> Option<f64> {
        let took = self.took.get() + took(round);
        (!took.is_zero()).then(|| self.received.get() as f64 / took.as_secs_f64())
    }
}

/// One sample a message: from when it was due until it reached the last of those whom it has reached.
fn record_last(round: &Round, times: &Times) {
    let Some(course) = round.course.get() else { return };
    for (number, last) in (0..).zip(round.last_of.borrow().iter()) {
        if let Some(last) = last {
            times.record(last.saturating_duration_since(course.due(number)));
        }
    }
}

/// From when the first message was due to the last delivery.
fn took(round: &Round) -> Duration {
    let last = round.last.get().zip(round.start());
    last.map_or(Duration::ZERO, |(last, start)| last.saturating_duration_since(start))
}
