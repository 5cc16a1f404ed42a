use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::thread::{self, JoinHandle};

use arrayvec::ArrayVec;
use crossbeam_channel::Receiver;
use encke_core::Timestamp;

use super::{Timeouts, Timer, TimerCell, TimerOwner};

/// The most expiries in one message to the workers.
pub(super) const BATCH: usize = 64;

/// The most messages on their way to the workers: 16,384 expiries, 80 KiB, and those of logs and sleeps 8 bytes each.
pub(crate) const DISPATCH_BATCHES: usize = 256;

/// What expired, on its way to the workers: at most [`BATCH`] timers.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Of sessions: their slots.
    slots: ArrayVec<u32, BATCH>,
    /// All others.
    own: Vec<Arc<TimerCell>>,
    /// When the first of them left the wheel.
    pub(super) expired_at: Option<Timestamp>,
}

impl Batch {
    /// There is [room](Self::room) for it.
    pub(super) fn push(&mut self, timer: Timer, now: Timestamp) {
        if self.is_empty() {
            self.expired_at = Some(now);
        }
        match timer {
            Timer::OfSlot(slot) => self.slots.push(slot),
            Timer::Own(timer) => self.own.push(timer),
        }
    }

    pub(super) fn room(&self) -> usize {
        BATCH - self.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.room() == 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn len(&self) -> usize {
        self.slots.len() + self.own.len()
    }

    pub(super) fn into_timers(self) -> impl Iterator<Item = Timer> {
        let Self { slots, own, .. } = self;
        slots.into_iter().map(Timer::OfSlot).chain(own.into_iter().map(Timer::Own))
    }
}

/// What the workers do with an expiry, and with the age of each batch that they receive.
pub(crate) trait ActOnExpiry: Send + Sync + 'static {
    /// The owner's deadline has passed, or had: look again. Tasks that have something to do now are not woken but
    /// collected. A sleep's task is among them already.
    fn act(&self, owner: TimerOwner, wakers: &mut Vec<Waker>);

    /// Wakes the tasks of a whole batch.
    fn wake(&self, wakers: Vec<Waker>);

    /// A batch was received that left the wheel then.
    fn received(&self, expired_at: Timestamp);
}

/// The threads that act on expiries.
#[derive(Debug)]
pub(crate) struct WorkerPool {
    threads: Vec<JoinHandle<()>>,
}

impl WorkerPool {
    /// Starts `count` workers, which end when the wheel thread has.
    ///
    /// # Errors
    /// The system's, when it cannot start a thread.
    pub(crate) fn start(
        count: usize,
        batches: &Receiver<Batch>,
        actor: &Arc<impl ActOnExpiry>,
        timeouts: &Arc<Timeouts>,
    ) -> std::io::Result<Self> {
        let start = |number| {
            let worker = Worker::new(number, batches.clone(), Arc::clone(actor), Arc::clone(timeouts));
            thread::Builder::new().name(format!("encke-worker-{number}")).spawn(move || worker.run())
        };
        Ok(Self { threads: (0..count).map(start).collect::<Result<_, _>>()? })
    }

    /// Waits for the workers to end.
    pub(crate) fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a worker had panicked");
            }
        }
    }
}

/// What one worker thread does.
#[derive(Debug)]
pub(crate) struct Worker<A> {
    number: usize,
    batches: Receiver<Batch>,
    actor: Arc<A>,
    timeouts: Arc<Timeouts>,
}

impl<A: ActOnExpiry> Worker<A> {
    pub(crate) fn new(
        number: usize,
        batches: Receiver<Batch>,
        actor: Arc<A>,
        timeouts: Arc<Timeouts>,
    ) -> Self {
        Self { number, batches, actor, timeouts }
    }

    fn run(&self) {
        for batch in &self.batches {
            self.act_on(batch);
        }
    }

    /// Takes one batch, if there is one, and acts on it. Returns whether there was one.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn act_on_next(&self) -> bool {
        let batch = self.batches.try_recv();
        batch.map(|batch| self.act_on(batch)).is_ok()
    }

    fn act_on(&self, batch: Batch) {
        let watch = &self.timeouts.dispatch;
        watch.taken(self.number, batch.expired_at);
        if let Some(expired_at) = batch.expired_at {
            self.actor.received(expired_at);
        }
        let mut wakers = Vec::with_capacity(batch.len());
        for timer in batch.into_timers() {
            let owner = match timer {
                Timer::OfSlot(slot) => TimerOwner::Session(slot),
                Timer::Own(timer) => {
                    wakers.extend(timer.take_sleeper());
                    timer.owner
                }
            };
            // A fault in one session, or in a hook, must not stop the timeouts of all others.
            if catch_unwind(AssertUnwindSafe(|| self.actor.act(owner, &mut wakers))).is_err() {
                watch.worker_panics.fetch_add(1, Ordering::Relaxed);
                tracing::error!(?owner, "a worker panicked while acting on an expiry");
            }
        }
        if catch_unwind(AssertUnwindSafe(|| self.actor.wake(wakers))).is_err() {
            watch.worker_panics.fetch_add(1, Ordering::Relaxed);
            tracing::error!("a worker panicked while waking tasks");
        }
        watch.done(self.number);
    }
}
