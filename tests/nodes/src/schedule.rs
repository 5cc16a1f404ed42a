//! Events in virtual time, and random choices.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// Milliseconds of virtual time.
pub type Millis = u64;

#[derive(Debug)]
pub(crate) struct Schedule<E> {
    pub(crate) now: Millis,
    queue: BinaryHeap<Reverse<(Millis, u64, usize)>>,
    events: Vec<Option<E>>,
    vacant: Vec<usize>,
    scheduled: u64,
    random: SmallRng,
}

impl<E> Schedule<E> {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: 0,
            queue: BinaryHeap::new(),
            events: Vec::new(),
            vacant: Vec::new(),
            scheduled: 0,
            random: SmallRng::seed_from_u64(seed),
        }
    }

    /// Schedules an event after `delay`. Events at the same time happen in the order of scheduling.
    pub(crate) fn after(&mut self, delay: Millis, event: E) {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[slot] = Some(event);
        self.scheduled += 1;
        self.queue.push(Reverse((self.now + delay, self.scheduled, slot)));
    }

    /// Takes the next event before `end`, and advances the time to it.
    pub(crate) fn next_before(&mut self, end: Millis) -> Option<E> {
        if self.queue.peek().is_none_or(|Reverse((at, ..))| *at >= end) {
            return None;
        }
        let Reverse((at, _, slot)) = self.queue.pop()?;
        self.now = at;
        self.vacant.push(slot);
        self.events[slot].take()
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.random.random_range(0..bound)
    }

    /// Whether an event with this probability happens.
    pub(crate) fn chance(&mut self, per_cent: u64) -> bool {
        self.below(100) < per_cent
    }
}
