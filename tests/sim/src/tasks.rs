//! The executor: polls one woken task at a time, in the order that the scheduler chooses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use encke_server::testing::simulation::Task;
use parking_lot::Mutex;

use crate::schedule::ConnectionNumber;
use crate::wire::ParkedChanges;

/// Identifies a task. An index is reused with the next generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub(crate) index: u32,
    generation: u32,
}

/// Tasks woken or spawned, until the executor takes them.
#[derive(Default)]
struct TaskQueue {
    woken: Mutex<Vec<TaskId>>,
    spawned: Mutex<Vec<Spawned>>,
}

/// A task spawned by the server, and the connection that it serves if the task unparks one.
type Spawned = (Task, Option<ConnectionNumber>);

struct TaskWaker {
    id: TaskId,
    queued: AtomicBool,
    queue: Arc<TaskQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.queue.woken.lock().push(self.id);
        }
    }
}

struct TaskSlot {
    task: Option<Task>,
    waker: Arc<TaskWaker>,
}

/// All tasks of one server.
#[derive(Default)]
pub(crate) struct Tasks {
    slots: Vec<TaskSlot>,
    free: Vec<u32>,
    queue: Arc<TaskQueue>,
    pub(crate) parked_changes: Arc<Mutex<ParkedChanges>>,
}

/// Result of polling a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollOutcome {
    Pending,
    Ended,
    /// The task had ended earlier.
    EndedBefore,
}

impl Tasks {
    /// Returns the function with which the server spawns tasks.
    pub(crate) fn spawner(&self) -> Box<dyn Fn(Task) + Send + Sync> {
        let (queue, parked_changes) = (Arc::clone(&self.queue), Arc::clone(&self.parked_changes));
        Box::new(move |task| {
            let serves = parked_changes.lock().woken.take();
            queue.spawned.lock().push((task, serves));
        })
    }

    /// Adds a task, and wakes it for the first time.
    pub(crate) fn spawn(&mut self, task: Task) -> TaskId {
        let index = self.free.pop().unwrap_or_else(|| u32::try_from(self.slots.len()).expect("few tasks"));
        let generation = self.slots.get(index as usize).map_or(0, |slot| slot.waker.id.generation + 1);
        let id = TaskId { index, generation };
        let waker =
            Arc::new(TaskWaker { id, queued: AtomicBool::new(false), queue: Arc::clone(&self.queue) });
        waker.wake_by_ref();
        let slot = TaskSlot { task: Some(task), waker };
        if index as usize == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[index as usize] = slot;
        }
        id
    }

    /// Adds the tasks that the server has spawned since the last call. Returns them with the connections they
    /// serve.
    pub(crate) fn take_spawned(&mut self) -> Vec<(TaskId, Option<ConnectionNumber>)> {
        let spawned = std::mem::take(&mut *self.queue.spawned.lock());
        spawned.into_iter().map(|(task, serves)| (self.spawn(task), serves)).collect()
    }

    /// Appends the tasks woken since the last call to `into`.
    pub(crate) fn take_woken(&mut self, into: &mut Vec<TaskId>) {
        into.append(&mut self.queue.woken.lock());
    }

    pub(crate) fn poll(&mut self, id: TaskId) -> PollOutcome {
        let slot = &mut self.slots[id.index as usize];
        let Some(task) = slot.task.as_mut().filter(|_| slot.waker.id == id) else {
            return PollOutcome::EndedBefore;
        };
        slot.waker.queued.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&slot.waker));
        if let Poll::Ready(()) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
            slot.task = None;
            self.free.push(id.index);
            return PollOutcome::Ended;
        }
        PollOutcome::Pending
    }

    /// Drops a task.
    pub(crate) fn cancel(&mut self, id: TaskId) {
        let slot = &mut self.slots[id.index as usize];
        if slot.waker.id == id && slot.task.take().is_some() {
            self.free.push(id.index);
        }
    }

    /// Drops all tasks, as if their process had exited.
    pub(crate) fn cancel_all(&mut self) {
        for index in 0..self.slots.len() {
            if self.slots[index].task.take().is_some() {
                self.free.push(u32::try_from(index).expect("few tasks"));
            }
        }
        self.queue.spawned.lock().clear();
        self.queue.woken.lock().clear();
        *self.parked_changes.lock() = ParkedChanges::default();
    }

    /// Returns the number of tasks that have not ended.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}
