//! Where the server's own tasks run: the runtime, or the scheduler of a simulation.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::{EnterGuard, Handle};

/// A task without a result.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks: for code that starts one from outside the runtime.
pub(crate) trait Executor: std::fmt::Debug + Send + Sync + 'static {
    /// Runs `task` to its end, some time.
    fn spawn(&self, task: Task);

    /// How tasks share work that is one small thing for each of many. It stays the same.
    fn sharing(&self) -> Sharing {
        Sharing::on(1)
    }
}

impl Executor for Handle {
    fn spawn(&self, task: Task) {
        drop(Self::spawn(self, task));
    }

    fn sharing(&self) -> Sharing {
        Sharing::on(self.metrics().num_workers())
    }
}

/// Runs no task: where none matters.
#[derive(Debug)]
pub(crate) struct NoTasks;

impl Executor for NoTasks {
    fn spawn(&self, _: Task) {}
}

/// How tasks share work that is one small thing for each of many, such as a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// So many tasks run at the same time.
    threads: usize,
    /// So many things are worth a task.
    worth_a_task: usize,
    /// A task does so many before others have their turn.
    at_once: usize,
}

impl Sharing {
    /// The most that any task does before others have their turn. At some 7 µs a thing, that takes a millisecond.
    pub(crate) const MOST_AT_ONCE: usize = 128;

    /// Of an executor with so many threads.
    pub(crate) const fn on(threads: usize) -> Self {
        Self { threads, worth_a_task: 1024, at_once: Self::MOST_AT_ONCE }
    }

    /// One by one, by as many tasks as there may be: for simulations, which have few of anything.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) const fn one_by_one(threads: usize) -> Self {
        Self { threads, worth_a_task: 1, at_once: 1 }
    }

    /// So many things a task does before others have their turn: [`Self::MOST_AT_ONCE`] at most.
    pub(crate) const fn at_once(self) -> usize {
        self.at_once
    }

    /// How many tasks share so many things. There is one at least.
    pub(crate) fn tasks(self, things: usize) -> usize {
        (things / self.worth_a_task).min(self.threads).max(1)
    }
}

/// Where connections that wake get their tasks: an [`Executor`] that needs no box for each.
#[derive(Clone, Debug)]
pub(crate) enum Runtime {
    Tokio(Handle),
    /// What a simulation has in its place.
    #[cfg(feature = "simulation")]
    Simulated(std::sync::Arc<dyn Executor>),
}

impl Runtime {
    /// Until the guard is dropped, sockets can be given to the runtime.
    pub(crate) fn enter(&self) -> Option<EnterGuard<'_>> {
        match self {
            Self::Tokio(runtime) => Some(runtime.enter()),
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => None,
        }
    }

    /// Runs `task` to its end, some time.
    pub(crate) fn spawn<T: Future<Output: Send + 'static> + Send + 'static>(&self, task: T) {
        match self {
            Self::Tokio(runtime) => drop(runtime.spawn(task)),
            #[cfg(feature = "simulation")]
            Self::Simulated(executor) => executor.spawn(Box::pin(async move { drop(task.await) })),
        }
    }
}

/// Lets the other tasks that can run go first, once. Unlike tokio's, it works on any executor.
pub(crate) async fn yield_now() {
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
    fn many_things_are_shared_by_as_many_tasks_as_they_are_worth_and_threads_run() {
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
            assert_eq!(Sharing::on(threads).tasks(things), tasks, "{things} on {threads} threads");
        }
    }

    #[test]
    fn a_runtime_has_the_threads_that_it_was_given() {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(3).build().expect("a runtime");
        assert_eq!(runtime.handle().sharing(), Sharing::on(3));
    }
}
