//! Executors of the server's tasks: the Tokio runtime, or the scheduler of a simulation.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::{EnterGuard, Handle};

pub type BoxedTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Spawns tasks on behalf of code that runs outside the runtime.
pub trait Executor: std::fmt::Debug + Send + Sync + 'static {
    /// Spawns `task`, which runs to completion.
    fn spawn(&self, task: BoxedTask);

    /// How tasks share batch work, such as waking many connections. The value never changes for an executor.
    fn work_sharing(&self) -> WorkSharing {
        WorkSharing::for_threads(1)
    }
}

impl Executor for Handle {
    fn spawn(&self, task: BoxedTask) {
        drop(Self::spawn(self, task));
    }

    fn work_sharing(&self) -> WorkSharing {
        WorkSharing::for_threads(self.metrics().num_workers())
    }
}

/// Drops all tasks, for tests in which no task matters.
#[derive(Debug)]
pub struct NoTasks;

impl Executor for NoTasks {
    fn spawn(&self, _: BoxedTask) {}
}

/// How tasks share work that consists of many small items, such as wake-ups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkSharing {
    /// Number of tasks that run in parallel.
    threads: usize,
    /// Number of items that justify another task.
    items_per_task: usize,
    /// Number of items that a task processes before it yields.
    batch_size: usize,
}

impl WorkSharing {
    /// Maximum number of items that a task processes before it yields. At about 7 µs per item, this takes a
    /// millisecond.
    pub const MAX_BATCH: usize = 128;

    /// Returns the settings for an executor with this many threads.
    pub const fn for_threads(threads: usize) -> Self {
        Self { threads, items_per_task: 1024, batch_size: Self::MAX_BATCH }
    }

    /// Returns settings for processing one item at a time, by up to `threads` tasks. Used in simulations,
    /// which have few items.
    #[cfg(any(test, feature = "simulation"))]
    pub const fn one_by_one(threads: usize) -> Self {
        Self { threads, items_per_task: 1, batch_size: 1 }
    }

    /// Returns the number of items that a task processes before it yields, at most [`Self::MAX_BATCH`].
    pub const fn batch_size(self) -> usize {
        self.batch_size
    }

    /// Returns the number of tasks that share this many items, at least one.
    pub fn task_count(self, items: usize) -> usize {
        (items / self.items_per_task).min(self.threads).max(1)
    }
}

/// Spawns the tasks of unparked connections. Unlike an [`Executor`], it does not box each task.
#[derive(Clone, Debug)]
pub enum Runtime {
    Tokio(Handle),
    #[cfg(feature = "simulation")]
    Simulated(std::sync::Arc<dyn Executor>),
}

impl Runtime {
    /// Enters the runtime's context, in which sockets can be registered with the runtime, until the guard is
    /// dropped.
    pub fn enter(&self) -> Option<EnterGuard<'_>> {
        match self {
            Self::Tokio(runtime) => Some(runtime.enter()),
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => None,
        }
    }

    /// Spawns `task`, which runs to completion.
    pub fn spawn<T: Future<Output: Send + 'static> + Send + 'static>(&self, task: T) {
        match self {
            Self::Tokio(runtime) => drop(runtime.spawn(task)),
            #[cfg(feature = "simulation")]
            Self::Simulated(executor) => executor.spawn(Box::pin(async move { drop(task.await) })),
        }
    }
}

/// Yields once to other tasks that are ready. Unlike Tokio's function, it works with any executor.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context: &mut Context<'_>| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_count_is_bounded_by_items_and_threads() {
        for (threads, things, tasks) in [
            (1, 1_000_000, 1),
            (4, 0, 1),
            (4, 1023, 1),
            (4, 2047, 1),
            (4, 2048, 2),
            (4, 4095, 3),
            (4, 4096, 4),
            (4, 1_000_000, 4),
        ] {
            assert_eq!(
                WorkSharing::for_threads(threads).task_count(things),
                tasks,
                "{things} on {threads} threads"
            );
        }
    }

    #[test]
    fn work_sharing_uses_the_runtimes_worker_threads() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(3).build().expect("a runtime");
        assert_eq!(runtime.handle().work_sharing(), WorkSharing::for_threads(3));
    }
}
