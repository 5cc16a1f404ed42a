//! One round of publishing to all subscribers.

use std::cell::{Cell, OnceCell, RefCell};

use tokio::time::Instant;

use super::schedule::Schedule;
use crate::record::Counter;

/// Schedule and progress of a round.
#[derive(Debug, Default)]
pub(crate) struct PublishRound {
    /// Set when all clients have subscribed.
    pub(crate) schedule: OnceCell<Schedule>,
    /// Number of connections that received a hello.
    pub(super) connected: Counter,
    /// Number of subscriptions that were answered or have failed.
    pub(super) settled: Counter,
    pub(crate) subscribed: Counter,
    /// Number of deliveries: each message counts once per subscriber.
    pub(super) received: Counter,
    /// Time of the latest delivery of each message.
    pub(super) last_of: RefCell<Vec<Option<Instant>>>,
    pub(super) last: Cell<Option<Instant>>,
}

impl PublishRound {
    /// Creates a concurrent round in another channel. Both rounds count connections and answered
    /// subscriptions together.
    pub(crate) fn in_another_channel(&self) -> Self {
        Self { connected: self.connected.clone(), settled: self.settled.clone(), ..Self::default() }
    }

    /// Sets the schedule. A round has only one.
    pub(crate) fn plan(&self, schedule: Schedule) -> &Schedule {
        self.last_of.replace(vec![None; schedule.len()]);
        self.schedule.get_or_init(|| schedule)
    }

    /// Returns whether all subscribers have received all messages.
    pub(crate) fn is_complete(&self) -> bool {
        self.received.get() >= self.expected()
    }

    pub(super) fn expected(&self) -> u64 {
        self.subscribed.get() * self.schedule.get().map_or(0, |schedule| schedule.len() as u64)
    }

    pub(super) fn note_arrival(&self, number: u32, at: Instant) {
        self.last.set(Some(at));
        self.last_of.borrow_mut()[number as usize] = Some(at);
    }
}
