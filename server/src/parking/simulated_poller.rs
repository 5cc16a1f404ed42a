use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Wake, Waker};

use encke_core::Timestamp;
use parking_lot::Mutex;

/// Replacement for a [`Poller`](super::Poller) in a simulation. Sockets in memory report their input to it,
/// and the simulation determines when it is polled.
#[derive(Debug, Default)]
pub(crate) struct SimulatedPoller {
    ready: Arc<ReadyQueue>,
    /// Sockets that the last poll found ready, and the time of that poll.
    found: Mutex<VecDeque<(u64, Timestamp)>>,
}

/// Numbers of sockets that may have input.
#[derive(Debug, Default)]
struct ReadyQueue(Mutex<VecDeque<u64>>);

/// Reports input on one socket.
#[derive(Debug)]
struct ReadyWaker {
    number: u64,
    ready: Arc<ReadyQueue>,
}

impl Wake for ReadyWaker {
    fn wake(self: Arc<Self>) {
        self.ready.0.lock().push_back(self.number);
    }
}

impl SimulatedPoller {
    /// Returns a waker that reports input on this socket.
    pub(crate) fn waker(&self, number: u64) -> Waker {
        Waker::from(Arc::new(ReadyWaker { number, ready: Arc::clone(&self.ready) }))
    }

    /// Whether there are events.
    pub(crate) fn has_events(&self) -> bool {
        !self.found.lock().is_empty() || !self.ready.0.lock().is_empty()
    }

    /// Returns the next event of the last poll, with the time of that poll. If no event is left, polls again
    /// at `now`.
    pub(crate) fn next_event(&self, now: Timestamp) -> Option<(u64, Timestamp)> {
        let mut found = self.found.lock();
        if found.is_empty() {
            found.extend(self.ready.0.lock().drain(..).map(|number| (number, now)));
        }
        found.pop_front()
    }
}
