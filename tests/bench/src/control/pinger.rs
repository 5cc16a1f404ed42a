//! Thread that asks each connection's task to send a ping, once per interval.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;
use std::thread;
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;

/// State shared by the pinger thread, the hub and the task of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnectionSignal {
    ping_requested: AtomicBool,
    closed: AtomicBool,
    waker: AtomicWaker,
}

impl ConnectionSignal {
    /// Wakes the task to send a ping. Returns `false` if the connection is closed.
    fn request_ping(&self) -> bool {
        self.ping_requested.store(true, Ordering::Release);
        self.wake()
    }

    /// Wakes the task. Returns `false` if the connection is closed.
    pub(crate) fn wake(&self) -> bool {
        self.waker.wake();
        !self.closed.load(Ordering::Relaxed)
    }

    /// Marks the connection as closed, so that the holders of this signal may drop it.
    pub(crate) fn mark_closed(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Returns whether a ping was requested since the last call, and registers the task to be woken by the
    /// next request.
    pub(crate) fn take_ping_request(&self, context: &Context<'_>) -> bool {
        self.waker.register(context.waker());
        // Read first, because most wake-ups are caused by a pong and need no write.
        self.ping_requested.load(Ordering::Acquire) && self.ping_requested.swap(false, Ordering::AcqRel)
    }
}

/// A ping interval, divided into batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PingSchedule {
    pub(crate) batch: Duration,
    pub(crate) batches: usize,
}

impl PingSchedule {
    /// Returns `None` if the interval is shorter than two batches.
    pub(crate) fn new(interval: Duration, batch: Duration) -> Option<Self> {
        let batches = usize::try_from(interval.as_nanos().checked_div(batch.as_nanos())?).ok()?;
        (batches >= 2).then_some(Self { batch, batches })
    }

    /// Returns the batch in which to ping a connection accepted during batch `current`, after `number`
    /// others. Its first ping is sent after 0.5 to 1.0 of the interval, like the server's, and then once per
    /// interval. Successive connections are spread by the golden ratio, which distributes them as evenly as
    /// possible.
    pub(crate) fn batch_of(self, number: usize, current: usize) -> usize {
        const GOLDEN: u64 = 0x9E37_79B9;
        let half = self.batches / 2;
        let fraction = (number as u64).wrapping_mul(GOLDEN) & u64::from(u32::MAX);
        let spread = ((half as u64 * fraction) >> 32) as usize;
        (current + half + spread) % self.batches
    }
}

/// Connections, by the batch in which they are pinged. The threads that lock a list are the pinger thread,
/// and one that adds a connection to it. A closed connection is dropped from its list when its batch is
/// pinged.
#[derive(Debug)]
pub(crate) struct Pinger {
    pace: PingSchedule,
    due: Vec<Mutex<Vec<Arc<ConnectionSignal>>>>,
    /// Index of the list to process next.
    current: AtomicUsize,
    added: AtomicUsize,
}

impl Pinger {
    pub(crate) fn start(pace: PingSchedule) -> io::Result<Arc<Self>> {
        let due = std::iter::repeat_with(Mutex::default).take(pace.batches).collect();
        let pinger = Arc::new(Self { pace, due, current: AtomicUsize::new(0), added: AtomicUsize::new(0) });
        let this = Arc::clone(&pinger);
        thread::Builder::new().name("control-pinger".into()).spawn(move || this.run())?;
        Ok(pinger)
    }

    pub(crate) fn add(&self) -> Arc<ConnectionSignal> {
        let number = self.added.fetch_add(1, Ordering::Relaxed);
        let index = self.pace.batch_of(number, self.current.load(Ordering::Relaxed));
        let bell = Arc::new(ConnectionSignal::default());
        self.due[index].lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&bell));
        bell
    }

    fn run(&self) {
        let mut next = Instant::now();
        loop {
            for (index, due) in self.due.iter().enumerate() {
                next += self.pace.batch;
                thread::sleep(next.saturating_duration_since(Instant::now()));
                self.current.store(index, Ordering::Relaxed);
                due.lock().unwrap_or_else(PoisonError::into_inner).retain(|bell| bell.request_ping());
            }
        }
    }
}
