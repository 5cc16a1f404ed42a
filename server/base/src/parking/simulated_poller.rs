use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Wake, Waker};

use encke_core::Timestamp;

use crate::locks::Mutex;

/// Replacement for a [`Poller`](super::Poller) in a simulation. Sockets in memory report their input to it,
/// and the simulation determines when it is polled.
#[derive(Debug, Default)]
pub struct SimulatedPoller(Arc<Mutex<Queues>>);

#[derive(Debug, Default)]
struct Queues {
    /// Numbers of sockets that may have input.
    ready: VecDeque<u64>,
    /// Sockets that the last poll found ready, and the time of that poll.
    found: VecDeque<(u64, Timestamp)>,
}

/// Reports input on one socket.
#[derive(Debug)]
struct ReadyWaker {
    number: u64,
    queues: Arc<Mutex<Queues>>,
}

impl Wake for ReadyWaker {
    fn wake(self: Arc<Self>) {
        self.queues.lock().ready.push_back(self.number);
    }
}

impl SimulatedPoller {
    /// Returns a waker that reports input on this socket.
    pub fn waker(&self, number: u64) -> Waker {
        Waker::from(Arc::new(ReadyWaker { number, queues: Arc::clone(&self.0) }))
    }

    /// Whether there are events.
    pub fn has_events(&self) -> bool {
        let queues = self.0.lock();
        !queues.found.is_empty() || !queues.ready.is_empty()
    }

    /// Returns the next event of the last poll, with the time of that poll. If no event is left, polls again
    /// at `now`.
    pub fn next_event(&self, now: Timestamp) -> Option<(u64, Timestamp)> {
        let Queues { ready, found } = &mut *self.0.lock();
        if found.is_empty() {
            found.extend(ready.drain(..).map(|number| (number, now)));
        }
        found.pop_front()
    }
}
