//! One round of publishing to all subscribers.

use crate::record::Counter;
use std::cell::{Cell, OnceCell, RefCell};

use tokio::time::Instant;

use super::schedule::Schedule;

/// Schedule and progress of a round.
#[derive(Debug, Default)]
pub(crate) struct PublishRound {
    /// Set when all clients have subscribed.
    pub(super) schedule: OnceCell<Schedule>,
    /// Number of connections that received a hello.
    pub(super) connected: Counter,
    /// Number of subscriptions that were answered or have failed.
    pub(super) settled: Counter,
    /// Number of subscriptions that succeeded.
    pub(super) subscribed: Counter,
    /// Number of subscribers that should receive every message.
    pub(super) counted: Counter,
    /// Number of deliveries: each message counts once per subscriber that should receive it.
    pub(super) received: Counter,
    /// Time of the latest delivery of each message.
    pub(super) last_of: RefCell<Vec<Option<Instant>>>,
    pub(super) last: Cell<Option<Instant>>,
    pub(super) is_published: Cell<bool>,
}

impl PublishRound {
    /// Creates a concurrent round in another channel. Both rounds count connections and answered
    /// subscriptions together.
    pub(crate) fn in_another_channel(&self) -> Self {
        Self { connected: self.connected.clone(), settled: self.settled.clone(), ..Self::default() }
    }

    /// Sets the schedule, unless it is already set.
    pub(crate) fn plan(&self, schedule: Schedule) -> &Schedule {
        self.schedule.get_or_init(|| schedule)
    }

    pub(crate) fn schedule(&self) -> Option<&Schedule> {
        self.schedule.get()
    }

    /// Returns whether all subscribers have received all messages.
    pub(crate) fn is_complete(&self) -> bool {
        self.received.get() >= self.expected()
    }

    /// Returns the time at which the first message is due.
    pub(crate) fn start(&self) -> Option<Instant> {
        self.schedule.get().map(Schedule::start)
    }

    /// Returns the time at which the last message is due.
    pub(crate) fn last_due(&self) -> Option<Instant> {
        self.schedule.get().map(Schedule::last_due)
    }

    pub(super) fn expected(&self) -> u64 {
        self.counted.get() * self.schedule.get().map_or(0, |schedule| schedule.len() as u64)
    }

    pub(super) fn note_arrival(&self, number: u32, at: Instant) {
        self.last.set(Some(at));
        let mut last_of = self.last_of.borrow_mut();
        if last_of.is_empty() {
            last_of.resize(self.schedule.get().map_or(0, Schedule::len), None);
        }
        if let Some(last) = last_of.get_mut(number as usize) {
            *last = Some(at);
        }
    }
}
