//! The executor: polls one woken task at a time, in the order that the scheduler chooses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use encke_server::testing::simulation::Task;
use parking_lot::Mutex;

use crate::schedule::{ConnectionNumber, PostNumber};
use crate::wire::Network;

/// Number of a task. Numbers are not reused.
pub(crate) type TaskNumber = u64;

/// Connection or request that a task of the server serves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TaskSubject {
    Connection(ConnectionNumber),
    Post(PostNumber),
}

/// Tasks woken or spawned, until the executor takes them.
#[derive(Default)]
struct TaskQueue {
    woken: Mutex<Vec<TaskNumber>>,
    /// Tasks spawned by the server. A task that unparks a connection serves it.
    spawned: Mutex<Vec<(Task, Option<ConnectionNumber>)>>,
}

struct TaskWaker {
    number: TaskNumber,
    queued: AtomicBool,
    queue: Arc<TaskQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.queue.woken.lock().push(self.number);
        }
    }
}

struct RunningTask {
    task: Task,
    waker: Arc<TaskWaker>,
    subject: Option<TaskSubject>,
}

/// All tasks of one server.
#[derive(Default)]
pub(crate) struct Tasks {
    running: BTreeMap<TaskNumber, RunningTask>,
    spawned: TaskNumber,
    queue: Arc<TaskQueue>,
}

impl Tasks {
    /// Returns the function with which the server spawns tasks.
    pub(crate) fn spawner(&self, network: &Arc<Network>) -> Box<dyn Fn(Task) + Send + Sync> {
        let (queue, network) = (Arc::clone(&self.queue), Arc::clone(network));
        Box::new(move |task| queue.spawned.lock().push((task, network.unparked.lock().take())))
    }

    /// Adds a task, and wakes it for the first time.
    pub(crate) fn spawn(&mut self, task: Task, subject: Option<TaskSubject>) -> TaskNumber {
        self.spawned += 1;
        let (number, queue) = (self.spawned, Arc::clone(&self.queue));
        let waker = Arc::new(TaskWaker { number, queued: AtomicBool::new(false), queue });
        waker.wake_by_ref();
        self.running.insert(number, RunningTask { task, waker, subject });
        number
    }

    /// Adds the tasks that the server has spawned since the last call. Returns those that serve a connection.
    pub(crate) fn take_spawned(&mut self) -> Vec<(TaskNumber, ConnectionNumber)> {
        let spawned = std::mem::take(&mut *self.queue.spawned.lock());
        let add = |(task, serves): (Task, Option<ConnectionNumber>)| {
            let number = self.spawn(task, serves.map(TaskSubject::Connection));
            Some((number, serves?))
        };
        spawned.into_iter().filter_map(add).collect()
    }

    /// Appends the tasks woken since the last call to `into`.
    pub(crate) fn take_woken(&mut self, into: &mut Vec<TaskNumber>) {
        into.append(&mut self.queue.woken.lock());
    }

    /// Polls a task, unless it had ended earlier. Returns its subject, and whether it has ended now.
    pub(crate) fn poll(&mut self, number: TaskNumber) -> Option<(Option<TaskSubject>, bool)> {
        let RunningTask { task, waker, subject } = self.running.get_mut(&number)?;
        let subject = *subject;
        waker.queued.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(waker));
        let has_ended = task.as_mut().poll(&mut Context::from_waker(&waker)) == Poll::Ready(());
        if has_ended {
            self.running.remove(&number);
        }
        Some((subject, has_ended))
    }

    pub(crate) fn cancel(&mut self, number: TaskNumber) {
        self.running.remove(&number);
    }

    /// Drops all tasks, as if their process had exited.
    pub(crate) fn cancel_all(&mut self) {
        self.running.clear();
        self.queue.spawned.lock().clear();
        self.queue.woken.lock().clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.running.len()
    }
}
