//! The server on one thread and in virtual time, without chance: what can happen now happens in order, then time goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use encke_core::Timestamp;
use encke_server::clock::UnixTime;
use encke_server::config::Config;
use encke_server::events::NoHooks;
use encke_server::simulation::{Parameters, Server, SimulatedEngine, SimulatedTime, Task};
use parking_lot::Mutex;

/// Batches of expiries that may wait for a worker.
const DISPATCH_BATCHES: usize = 16;

/// A server and all that it needs.
pub(crate) struct Simulated {
    pub(crate) server: Server,
    time: Arc<SimulatedTime>,
    tasks: Vec<Running>,
    /// Tasks that the server has for itself.
    standing: usize,
    spawned: Arc<Mutex<Vec<Task>>>,
    wheel_woken: Arc<Woken>,
    wheel_sleeps_until: Timestamp,
}

struct Running {
    task: Task,
    woken: Arc<Woken>,
}

#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Woken {
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Simulated {
    /// `engine_delay` is how late answers of the engine are.
    pub(crate) fn new(config: Config, engine_delay: Option<Duration>) -> Self {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(1_700_000_000)));
        let spawned = Arc::<Mutex<Vec<Task>>>::default();
        let wheel_woken = Arc::<Woken>::default();
        let spawner = Arc::clone(&spawned);
        let server = Server::new(Parameters {
            config,
            seed: 1,
            time: Arc::clone(&time),
            hooks: Box::new(NoHooks),
            spawn: Box::new(move |task| spawner.lock().push(task)),
            io_threads: 1,
            wheel_waker: Waker::from(Arc::clone(&wheel_woken)),
            dispatch_batches: DISPATCH_BATCHES,
            engine: SimulatedEngine::Memory(Box::new(move || engine_delay)),
        });
        let wheel_sleeps_until = server.now();
        let standing = spawned.lock().len();
        Self { server, time, tasks: Vec::new(), standing, spawned, wheel_woken, wheel_sleeps_until }
    }

    pub(crate) fn spawn(&mut self, task: Task) {
        self.tasks.push(Running { task, woken: Arc::new(Woken(AtomicBool::new(true))) });
    }

    /// Tasks of connections that have not ended.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len() + self.spawned.lock().len() - self.standing
    }

    /// All that can happen now happens.
    pub(crate) fn settle(&mut self) {
        while self.poll_tasks() | self.turn_wheel() | self.server.work() {}
    }

    /// Time goes on, to each instant at which the wheel wakes up.
    pub(crate) fn pass(&mut self, duration: Duration) {
        let end = self.time.elapsed() + duration;
        self.settle();
        while let left = end - self.time.elapsed()
            && !left.is_zero()
        {
            let sleep = self.wheel_sleeps_until.since(self.server.now());
            self.time.advance(sleep.min(left));
            self.settle();
        }
    }

    fn poll_tasks(&mut self) -> bool {
        let spawned = std::mem::take(&mut *self.spawned.lock());
        let mut progress = !spawned.is_empty();
        spawned.into_iter().for_each(|task| self.spawn(task));
        self.tasks.retain_mut(|Running { task, woken }| {
            if !woken.take() {
                return true;
            }
            progress = true;
            let waker = Waker::from(Arc::clone(woken));
            task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Pending
        });
        progress
    }

    fn turn_wheel(&mut self) -> bool {
        let is_due = self.wheel_woken.take() | (self.server.now() >= self.wheel_sleeps_until);
        if is_due {
            self.wheel_sleeps_until = loop {
                if let Some(until) = self.server.step_wheel() {
                    break until;
                }
                // What does not fit waits for the workers.
                while self.server.work() {}
            };
        }
        is_due
    }
}
