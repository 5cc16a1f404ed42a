//! One run of publishing to everyone.

use crate::record::Counter;
use std::cell::{Cell, OnceCell, RefCell};

use tokio::time::Instant;

use super::schedule::Schedule;

/// What is published in it, and how far that has come.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// Set when everyone is subscribed.
    pub(super) schedule: OnceCell<Schedule>,
    /// Connections that got a hello.
    pub(super) connected: Counter,
    /// Subscriptions that were answered, or will not be any more.
    pub(super) settled: Counter,
    /// Those that were.
    pub(super) subscribed: Counter,
    /// Subscribers who should have every message.
    pub(super) counted: Counter,
    /// Each message once a subscriber who counts, however often it came.
    pub(super) received: Counter,
    /// When each message reached the last subscriber so far.
    pub(super) last_of: RefCell<Vec<Option<Instant>>>,
    pub(super) last: Cell<Option<Instant>>,
    pub(super) is_published: Cell<bool>,
}

impl Round {
    /// The first message is due.
    pub(crate) fn start(&self) -> Option<Instant> {
        self.schedule.get().map(Schedule::start)
    }

    /// The last message is due.
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
