use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use encke_core::Timestamp;

use super::poller::Poller;
use crate::abort_on_panic::AbortOnPanic;

/// A thread that watches parked connections for input. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct PollerThread {
    poller: Arc<Poller>,
    thread: Option<JoinHandle<()>>,
}

impl PollerThread {
    /// # Errors
    /// Errors of the operating system, if the thread cannot be started.
    pub(crate) fn start(
        poller: &Arc<Poller>,
        now: impl Fn() -> Timestamp + Send + 'static,
        act: impl FnMut(u64, Timestamp) + Send + 'static,
    ) -> io::Result<Self> {
        let polled = Arc::clone(poller);
        let thread = thread::Builder::new().name("encke-poll".into()).spawn(move || {
            // Without this thread, input on parked connections would never be read, while its bytes count as
            // signs of life.
            let _abort = AbortOnPanic;
            // Answers to pings arrive while other pings are sent. Preempting a worker for each answer would
            // take longer than handling the answer. Where the policy is not permitted, handling is only more
            // expensive.
            let _ = encke_sys::use_batch_scheduling();
            polled.run(now, act);
        })?;
        Ok(Self { poller: Arc::clone(poller), thread: Some(thread) })
    }

    /// Stops the thread. None of its poller's connections can be parked afterwards.
    pub(crate) fn stop(mut self) {
        self.poller.stop();
        self.join();
    }
}

impl PollerThread {
    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // A panic would have aborted the process.
            let _ = thread.join();
        }
    }
}

impl Drop for PollerThread {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.poller.stop();
            self.join();
        }
    }
}
