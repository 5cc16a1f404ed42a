//! A deterministic server on one thread, in virtual time. Time advances only when nothing else can run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use encke_core::Timestamp;
use encke_server::config::Config;
use encke_server::events::NoHooks;
use encke_server::testing::simulation::{Parameters, SimulatedEngine, SimulatedServer, Task};
use encke_timeouts::clock::{SimulatedTime, UnixTime};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;

/// Capacity of the workers' queue, in batches of expiries.
const DISPATCH_BATCHES: usize = 16;

/// A server with its clock, tasks and wheel.
pub(crate) struct ServerSimulation {
    pub(crate) server: SimulatedServer,
    time: Arc<SimulatedTime>,
    tasks: FuturesUnordered<Task>,
    tasks_woken: Arc<WakeSignal>,
    /// Number of tasks that the server spawned at its start.
    own_tasks: usize,
    spawned: Arc<Mutex<Vec<Task>>>,
    wheel_woken: Arc<WakeSignal>,
    wheel_sleeps_until: Timestamp,
}

#[derive(Debug, Default)]
struct WakeSignal(AtomicBool);

impl WakeSignal {
    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl Wake for WakeSignal {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl ServerSimulation {
    /// Starts a server. `engine_delay` is the delay of the engine's responses.
    pub(crate) fn new(config: Config, engine_delay: Option<Duration>) -> Self {
        let time = Arc::new(SimulatedTime::new(UnixTime::from_secs(1_700_000_000)));
        let spawned = Arc::<Mutex<Vec<Task>>>::default();
        let wheel_woken = Arc::<WakeSignal>::default();
        let spawner = Arc::clone(&spawned);
        let server = SimulatedServer::new(Parameters {
            config,
            seed: 1,
            time: Arc::clone(&time),
            hooks: Box::new(NoHooks),
            spawn: Box::new(move |task| spawner.lock().push(task)),
            io_threads: 1,
            wheel_waker: Waker::from(Arc::clone(&wheel_woken)),
            dispatch_batches: DISPATCH_BATCHES,
            backend: None,
            engine: SimulatedEngine::Memory(Box::new(move || engine_delay)),
        });
        let wheel_sleeps_until = server.now();
        let own_tasks = spawned.lock().len();
        Self {
            server,
            time,
            tasks: FuturesUnordered::new(),
            tasks_woken: Arc::default(),
            own_tasks,
            spawned,
            wheel_woken,
            wheel_sleeps_until,
        }
    }

    pub(crate) fn spawn(&self, task: Task) {
        self.spawned.lock().push(task);
    }

    /// Returns the number of connection tasks that have not ended.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len() + self.spawned.lock().len() - self.own_tasks
    }

    /// Runs everything that can run without advancing time.
    pub(crate) fn run_until_idle(&mut self) {
        while self.poll_tasks() | self.run_wheel() | self.server.work() {}
    }

    /// Advances time, stopping at each instant at which the wheel wakes up.
    pub(crate) fn advance(&mut self, duration: Duration) {
        let end = self.time.elapsed() + duration;
        self.run_until_idle();
        while let left = end - self.time.elapsed()
            && !left.is_zero()
        {
            let sleep = self.wheel_sleeps_until.since(self.server.now());
            self.time.advance(sleep.min(left));
            self.run_until_idle();
        }
    }

    fn poll_tasks(&mut self) -> bool {
        let spawned = std::mem::take(&mut *self.spawned.lock());
        let progress = !spawned.is_empty() | self.tasks_woken.take();
        self.tasks.extend(spawned);
        let waker = Waker::from(Arc::clone(&self.tasks_woken));
        while let Poll::Ready(Some(())) = self.tasks.poll_next_unpin(&mut Context::from_waker(&waker)) {}
        progress
    }

    fn run_wheel(&mut self) -> bool {
        let is_due = self.wheel_woken.take() | (self.server.now() >= self.wheel_sleeps_until);
        if is_due {
            self.wheel_sleeps_until = loop {
                if let Some(until) = self.server.step_wheel() {
                    break until;
                }
                // Let the workers empty the queue: batches that do not fit into it wait for free space.
                while self.server.work() {}
            };
        }
        is_due
    }
}
