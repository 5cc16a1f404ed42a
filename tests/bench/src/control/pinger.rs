//! Thread that asks each connection's task to send a ping, once per interval.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Context;
use std::thread;
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;
use parking_lot::Mutex;

/// How often the pings that are due are sent. Equals the ping slack of the server.
pub(crate) const BATCH: Duration = Duration::from_millis(100);

/// State shared by the pinger thread, the hub and the task of one connection, which owns it.
#[derive(Debug, Default)]
pub(crate) struct ConnectionSignal {
    ping_requested: AtomicBool,
    waker: AtomicWaker,
}

impl ConnectionSignal {
    /// Wakes the task to send a ping.
    fn request_ping(&self) {
        self.ping_requested.store(true, Ordering::Release);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Returns whether a ping was requested since the last call, and registers the task to be woken by the
    /// next request.
    pub(crate) fn take_ping_request(&self, context: &Context<'_>) -> bool {
        self.waker.register(context.waker());
        // Read first, because most wake-ups are caused by a pong and need no write.
        self.ping_requested.load(Ordering::Acquire) && self.ping_requested.swap(false, Ordering::AcqRel)
    }
}

/// Calls a function for each open connection, and removes the others.
pub(crate) fn retain_open(connections: &mut Vec<Weak<ConnectionSignal>>, function: fn(&ConnectionSignal)) {
    connections.retain(|connection| connection.upgrade().inspect(|open| function(open)).is_some());
}

/// Returns the batch in which to ping a connection accepted during batch `current`, after `number` others.
/// Its first ping is sent after 0.5 to 1.0 of the interval, like the server's, and then once per interval.
/// Successive connections are spread by the golden ratio, which distributes them as evenly as possible.
pub(crate) fn batch_of(number: usize, current: usize, batches: usize) -> usize {
    const GOLDEN: u64 = 0x9E37_79B9;
    let half = batches / 2;
    let fraction = (number as u64).wrapping_mul(GOLDEN) & u64::from(u32::MAX);
    let spread = ((half as u64 * fraction) >> 32) as usize;
    (current + half + spread) % batches
}

/// Connections, by the batch in which they are pinged. The threads that lock a list are the pinger thread,
/// and one that adds a connection to it. A closed connection is dropped from its list when its batch is
/// pinged.
#[derive(Debug)]
pub(crate) struct Pinger {
    due: Vec<Mutex<Vec<Weak<ConnectionSignal>>>>,
    /// Index of the list to process next.
    current: AtomicUsize,
    added: AtomicUsize,
}

impl Pinger {
    pub(crate) fn start(batches: usize) -> io::Result<Arc<Self>> {
        let due = std::iter::repeat_with(Mutex::default).take(batches).collect();
        let pinger = Arc::new(Self { due, current: AtomicUsize::new(0), added: AtomicUsize::new(0) });
        let this = Arc::clone(&pinger);
        thread::Builder::new().name("control-pinger".into()).spawn(move || this.run())?;
        Ok(pinger)
    }

    pub(crate) fn add(&self) -> Arc<ConnectionSignal> {
        let number = self.added.fetch_add(1, Ordering::Relaxed);
        let index = batch_of(number, self.current.load(Ordering::Relaxed), self.due.len());
        let signal = Arc::<ConnectionSignal>::default();
        self.due[index].lock().push(Arc::downgrade(&signal));
        signal
    }

    fn run(&self) {
        let mut next = Instant::now();
        loop {
            for (index, due) in self.due.iter().enumerate() {
                next += BATCH;
                thread::sleep(next.saturating_duration_since(Instant::now()));
                self.current.store(index, Ordering::Relaxed);
                retain_open(&mut due.lock(), ConnectionSignal::request_ping);
            }
        }
    }
}
