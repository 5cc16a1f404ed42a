use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Wake, Waker};

use encke_core::Timestamp;
use parking_lot::Mutex;

/// What a simulation has in place of a [`Poller`](super::Poller): sockets in memory tell it that there is something to read, and whoever
/// runs the simulation says when it is looked at.
#[derive(Debug, Default)]
pub(crate) struct SimulatedPoller {
    told: Arc<Told>,
    /// What one look has brought, all at the same time, and when that was.
    found: Mutex<VecDeque<(u64, Timestamp)>>,
}

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
        Waker::from(Arc::new(Tells { number, told: Arc::clone(&self.told) }))
    }

    /// Whether anything was told.
    pub(crate) fn has_news(&self) -> bool {
        !self.found.lock().is_empty() || !self.told.0.lock().is_empty()
    }

    /// One of those that the last look has brought, and when that was. If none is left, it is looked again, now.
    pub(crate) fn next(&self, now: Timestamp) -> Option<(u64, Timestamp)> {
        let mut found = self.found.lock();
        if found.is_empty() {
            found.extend(self.told.0.lock().drain(..).map(|number| (number, now)));
        }
        found.pop_front()
    }
}
