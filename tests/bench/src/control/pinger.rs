//! One thread that says to every connection, once an interval, that it should ping its peer.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;
use std::thread;
use std::time::{Duration, Instant};

use atomic_waker::AtomicWaker;

/// What the thread and the task of one connection share.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    gone: AtomicBool,
    waker: AtomicWaker,
}

impl Bell {
    /// Wakes the task in order to ping. False if the connection is gone.
    fn ring(&self) -> bool {
        self.rung.store(true, Ordering::Release);
        self.wake()
    }

    /// Wakes the task. False if the connection is gone.
    pub(crate) fn wake(&self) -> bool {
        self.waker.wake();
        !self.gone.load(Ordering::Relaxed)
    }

    /// The connection is gone: whoever holds the bell may drop it.
    pub(crate) fn retire(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Whether it was rung since the last look. The task is woken by the next ring.
    pub(crate) fn was_rung(&self, context: &Context<'_>) -> bool {
        self.waker.register(context.waker());
        // A read alone for the common case: most wake-ups bring a pong.
        self.rung.load(Ordering::Acquire) && self.rung.swap(false, Ordering::AcqRel)
    }
}

/// An interval, cut into batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) batch: Duration,
    pub(crate) batches: usize,
}

impl Pace {
    /// None if the interval does not hold two batches.
    pub(crate) fn new(interval: Duration, batch: Duration) -> Option<Self> {
        let batches = usize::try_from(interval.as_nanos().checked_div(batch.as_nanos())?).ok()?;
        (batches >= 2).then_some(Self { batch, batches })
    }

    /// In which batch a connection is pinged that comes during the batch `current`, after `number` others. Its first ping comes after 0.5 to
    /// 1.0 of the interval, as the server has it, then once each interval. Successive connections are spread by the golden ratio, which
    /// is as even as it gets.
    pub(crate) fn batch_of(self, number: usize, current: usize) -> usize {
        const GOLDEN: u64 = 0x9E37_79B9;
        let half = self.batches / 2;
        let fraction = (number as u64).wrapping_mul(GOLDEN) & u64::from(u32::MAX);
        let spread = ((half as u64 * fraction) >> 32) as usize;
        (current + half + spread) % self.batches
    }
}

/// The connections, by the part of the interval in which they are pinged. The lists are locked by whoever adds a
/// connection and by the thread; a connection that is gone is dropped from its list when its turn comes.
#[derive(Debug)]
pub(crate) struct Pinger {
    pace: Pace,
    due: Vec<Mutex<Vec<Arc<Bell>>>>,
    /// The list whose turn it is.
    current: AtomicUsize,
    added: AtomicUsize,
}

impl Pinger {
    pub(crate) fn start(pace: Pace) -> io::Result<Arc<Self>> {
        let due = std::iter::repeat_with(Mutex::default).take(pace.batches).collect();
        let pinger = Arc::new(Self { pace, due, current: AtomicUsize::new(0), added: AtomicUsize::new(0) });
        let this = Arc::clone(&pinger);
        thread::Builder::new().name("control-pinger".into()).spawn(move || this.run())?;
        Ok(pinger)
    }

    pub(crate) fn add(&self) -> Arc<Bell> {
        let number = self.added.fetch_add(1, Ordering::Relaxed);
        let index = self.pace.batch_of(number, self.current.load(Ordering::Relaxed));
        let bell = Arc::new(Bell::default());
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
                due.lock().unwrap_or_else(PoisonError::into_inner).retain(|bell| bell.ring());
            }
        }
    }
}
