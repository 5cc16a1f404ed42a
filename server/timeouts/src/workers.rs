use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::thread::{self, JoinHandle};

use arrayvec::ArrayVec;
use crossbeam_channel::Receiver;
use encke_core::Timestamp;

use crate::timeouts::Timeouts;
use crate::timer::Timer;
use crate::timer_cell::TimerCell;
use crate::timer_owner::TimerOwner;

/// Maximum number of expiries in one batch.
pub(crate) const BATCH_SIZE: usize = 64;

/// Expired timers to be handled by a worker, at most 64.
#[derive(Debug, Default)]
pub struct ExpiryBatch {
    /// Slots of the sessions whose timers have expired.
    slots: ArrayVec<u32, BATCH_SIZE>,
    /// Standalone timers.
    standalone: Vec<Arc<TimerCell>>,
    /// When the first timer of the batch left the wheel.
    pub(crate) expired_at: Option<Timestamp>,
}

impl ExpiryBatch {
    /// Adds a timer. The caller must ensure that there is [room](Self::room).
    pub(crate) fn push(&mut self, timer: Timer, now: Timestamp) {
        if self.is_empty() {
            self.expired_at = Some(now);
        }
        match timer {
            Timer::Slot(slot) => self.slots.push(slot),
            Timer::Standalone(timer) => self.standalone.push(timer),
        }
    }

    pub(crate) fn room(&self) -> usize {
        BATCH_SIZE - self.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.room() == 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.slots.len() + self.standalone.len()
    }

    pub(crate) fn into_timers(self) -> impl Iterator<Item = Timer> {
        let Self { slots, standalone: own, .. } = self;
        slots.into_iter().map(Timer::Slot).chain(own.into_iter().map(Timer::Standalone))
    }
}

/// Handles expiries on the worker threads.
pub trait ExpiryHandler: Send + Sync + 'static {
    /// Handles an expiry: makes the owner of the timer check its deadlines. Collects the wakers of tasks that
    /// have work to do instead of calling them. The waker of a sleep's task is already in `wakers`.
    fn handle_expiry(&self, owner: TimerOwner, wakers: &mut Vec<Waker>);

    /// Wakes the tasks that were collected for a whole batch.
    fn wake(&self, wakers: Vec<Waker>);

    /// Called for each batch received, with the time at which the batch left the wheel.
    fn batch_received(&self, expired_at: Timestamp);
}

/// The running worker threads.
#[derive(Debug)]
pub struct WorkerPool {
    threads: Vec<JoinHandle<()>>,
}

impl WorkerPool {
    /// Starts `count` workers, which exit after the wheel thread has exited.
    ///
    /// # Errors
    /// The I/O error if a thread cannot be started.
    pub fn start(
        count: usize,
        batches: &Receiver<ExpiryBatch>,
        handler: &Arc<impl ExpiryHandler>,
        timeouts: &Arc<Timeouts>,
    ) -> std::io::Result<Self> {
        let start = |number| {
            let worker =
                ExpiryWorker::new(number, batches.clone(), Arc::clone(handler), Arc::clone(timeouts));
            thread::Builder::new().name(format!("encke-worker-{number}")).spawn(move || worker.run())
        };
        Ok(Self { threads: (0..count).map(start).collect::<Result<_, _>>()? })
    }

    /// Waits until all workers have exited.
    pub fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("worker thread panicked");
            }
        }
    }
}

/// A worker thread's state.
#[derive(Debug)]
pub struct ExpiryWorker<A> {
    number: usize,
    batches: Receiver<ExpiryBatch>,
    actor: Arc<A>,
    timeouts: Arc<Timeouts>,
}

impl<A: ExpiryHandler> ExpiryWorker<A> {
    /// Creates a worker without its thread.
    pub fn new(
        number: usize,
        batches: Receiver<ExpiryBatch>,
        actor: Arc<A>,
        timeouts: Arc<Timeouts>,
    ) -> Self {
        Self { number, batches, actor, timeouts }
    }

    fn run(&self) {
        for batch in &self.batches {
            self.handle_batch(batch);
        }
    }

    /// Handles a batch if there is one. Returns whether there was.
    #[cfg(feature = "simulation")]
    pub fn handle_next(&self) -> bool {
        let batch = self.batches.try_recv();
        batch.map(|batch| self.handle_batch(batch)).is_ok()
    }

    fn handle_batch(&self, batch: ExpiryBatch) {
        let watch = &self.timeouts.dispatch;
        watch.taken(self.number, batch.expired_at);
        if let Some(expired_at) = batch.expired_at {
            self.actor.batch_received(expired_at);
        }
        let mut wakers = Vec::with_capacity(batch.len());
        for timer in batch.into_timers() {
            let owner = match timer {
                Timer::Slot(slot) => TimerOwner::Session(slot),
                Timer::Standalone(timer) => {
                    wakers.extend(timer.take_sleeper());
                    timer.owner
                }
            };
            // A panic in one session or hook must not stop the timeouts of all others.
            if catch_unwind(AssertUnwindSafe(|| self.actor.handle_expiry(owner, &mut wakers))).is_err() {
                watch.worker_panics.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    owner = owner.kind(),
                    "worker panicked while handling an expiry; it continues"
                );
            }
        }
        if catch_unwind(AssertUnwindSafe(|| self.actor.wake(wakers))).is_err() {
            watch.worker_panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!("worker panicked while waking tasks; it continues");
        }
        watch.done(self.number);
    }
}
