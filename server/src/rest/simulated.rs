use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Wake, Waker};

use parking_lot::Mutex;

/// What a simulation has in place of a [`Poller`](super::Poller): sockets in memory tell it that there is something to read, and whoever
/// runs the simulation says when it is looked at.
#[derive(Debug, Default)]
pub(crate) struct SimulatedPoller(Arc<Told>);

/// The numbers of sockets that may have something to read.
#[derive(Debug, Default)]
struct Told(Mutex<VecDeque<u64>>);

/// Tells of one of them.
#[derive(Debug)]
struct Tells {
    number: u64,
    told: Arc<Told>,
}

impl Wake for Tells {
    fn wake(self: Arc<Self>) {
        self.told.0.lock().push_back(self.number);
    }
}

impl SimulatedPoller {
    /// To be woken when there is something to read.
    pub(crate) fn tells(&self, number: u64) -> Waker {
        Waker::from(Arc::new(Tells { number, told: Arc::clone(&self.0) }))
    }

    /// Whether anything was told.
    pub(crate) fn has_news(&self) -> bool {
        !self.0.0.lock().is_empty()
    }

    /// What was told first.
    pub(crate) fn next(&self) -> Option<u64> {
        self.0.0.lock().pop_front()
    }
}
