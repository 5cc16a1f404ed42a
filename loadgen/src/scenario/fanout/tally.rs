//! What all subscribers together have had.

use std::cell::{Cell, RefCell};

use tokio::time::Instant;

use super::course::Course;
use super::ledger::Arrival;
use crate::record::{Counter, Latency, Recorder};
use crate::result::Group;

#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Each message once a subscriber, however often it came.
    received: Counter,
    duplicated: Counter,
    misordered: Counter,
    /// Messages of the channel that are not of this run.
    foreign: Counter,
    /// Messages of this run whose data is not what was published.
    corrupted: Counter,
    /// Messages and gaps whose seq does not follow from the one before.
    misnumbered: Counter,
    gaps: Counter,
    /// What the gaps name.
    gap_messages: Counter,
    latency: Latency,
    /// When each message reached the last subscriber so far.
    last_of: RefCell<Vec<Option<Instant>>>,
    last: Cell<Option<Instant>>,
}

impl Tally {
    pub(super) fn record(&self, recorder: &Recorder) {
        for (name, counter) in [
            ("received", &self.received),
            ("duplicated", &self.duplicated),
            ("misordered", &self.misordered),
            ("foreign", &self.foreign),
            ("corrupted", &self.corrupted),
            ("misnumbered", &self.misnumbered),
            ("gaps", &self.gaps),
            ("gap_messages", &self.gap_messages),
        ] {
            recorder.counter(name, counter);
        }
        recorder.latency("delivery_latency", &self.latency);
    }

    pub(super) fn received(&self) -> u64 {
        self.received.get()
    }

    /// Changes with everything that arrives.
    pub(super) fn arrivals(&self) -> u64 {
        self.received.get() + self.duplicated.get() + self.unknown() + self.gaps.get()
    }

    fn unknown(&self) -> u64 {
        self.foreign.get() + self.corrupted.get()
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

    pub(super) fn message(&self, course: &Course, number: u32, arrival: Arrival) {
        match arrival {
            Arrival::Duplicated => return self.duplicated.increment(),
            Arrival::Misordered => self.misordered.increment(),
            Arrival::InOrder => {}
        }
        self.received.increment();
        let now = Instant::now();
        self.latency.record(course.due(number), course.start_of(number), now);
        self.last.set(Some(now));
        let mut last_of = self.last_of.borrow_mut();
        if last_of.is_empty() {
            last_of.resize(course.len(), None);
        }
        last_of[number as usize] = Some(now);
    }

    pub(super) fn outcome(&self, expected: u64, course: Option<&Course>) -> Group {
        Group::default()
            .with("expected", expected)
            .with("received", self.received.get())
            .with("lost", expected.saturating_sub(self.received.get()))
            .with("duplicated", self.duplicated.get())
            .with("misordered", self.misordered.get())
            .with("foreign", self.foreign.get())
            .with("corrupted", self.corrupted.get())
            .with("misnumbered", self.misnumbered.get())
            .with("gaps", self.gaps.get())
            .with("gap_messages", self.gap_messages.get())
            .and(self.to_last_delivery(course).summary("latency"))
            .and(self.latency.summary("delivery_latency"))
            .with("deliveries_per_second", self.rate(course))
    }

    /// One sample a message: from when it was due until it reached the last of those whom it has reached.
    fn to_last_delivery(&self, course: Option<&Course>) -> Latency {
        let times = Latency::default();
        let last_of = self.last_of.borrow();
        for (number, last) in (0..).zip(last_of.iter()) {
            if let (Some(course), Some(last)) = (course, last) {
                times.record(course.due(number), course.start_of(number), *last);
            }
        }
        times
    }

    /// From when the first message was due to the last delivery.
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    fn rate(&self, course: Option<&Course>) -> Option<f64> {
        let took = self.last.get()?.saturating_duration_since(course?.start());
        (!took.is_zero()).then(|| self.received.get() as f64 / took.as_secs_f64())
    }
}
