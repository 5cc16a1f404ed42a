//! Where the server's own tasks run: the runtime, or the scheduler of a simulation.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

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
