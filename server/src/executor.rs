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
}

impl Executor for Handle {
    fn spawn(&self, task: Task) {
        drop(Self::spawn(self, task));
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
