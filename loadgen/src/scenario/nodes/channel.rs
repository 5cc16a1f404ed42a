//! A channel, and the offsets of its messages.

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;

use crate::scenario::channel::Schedule;

#[derive(Debug)]
pub(super) struct NodesChannel {
    pub(super) name: String,
    /// Set when all sessions have subscribed.
    pub(super) schedule: OnceCell<Schedule>,
    pub(super) subscriptions: Cell<u64>,
    /// Offset of each message. `None` if neither a publisher nor a subscriber knows it.
    offsets: RefCell<Vec<Option<u64>>>,
    /// Number of messages that a server confirmed.
    confirmed: Cell<u64>,
}

impl NodesChannel {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            schedule: OnceCell::new(),
            subscriptions: Cell::new(0),
            offsets: RefCell::default(),
            confirmed: Cell::new(0),
        }
    }

    /// Sets the schedule. A channel has only one.
    pub(super) fn plan(&self, schedule: Schedule) {
        self.offsets.replace(vec![None; schedule.len()]);
        self.schedule.get_or_init(|| schedule);
    }

    pub(super) fn numbers(&self) -> Range<u32> {
        0..u32::try_from(self.offsets.borrow().len()).unwrap_or(u32::MAX)
    }

    pub(super) fn note_confirmed(&self) {
        self.confirmed.set(self.confirmed.get() + 1);
    }

    /// Returns the number of messages that are in the channel, although no server confirmed them.
    pub(super) fn unconfirmed(&self) -> u64 {
        let known = self.offsets.borrow().iter().flatten().count() as u64;
        known.saturating_sub(self.confirmed.get())
    }

    pub(super) fn offset(&self, number: u32) -> Option<u64> {
        *self.offsets.borrow().get(number as usize)?
    }

    /// Records the offset of a message. Returns false if the message has another offset: then, the channel
    /// contains the message twice.
    pub(super) fn note_offset(&self, number: u32, offset: u64) -> bool {
        let mut offsets = self.offsets.borrow_mut();
        offsets.get_mut(number as usize).is_some_and(|known| *known.get_or_insert(offset) == offset)
    }
}
