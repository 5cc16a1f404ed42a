use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use encke_core::Timestamp;

use super::poller::Poller;
use crate::abort_on_panic::AbortOnPanic;

/// A thread that looks what connections at rest have to read. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct PollerThread {
    poller: Arc<Poller>,
    thread: Option<JoinHandle<()>>,
}

impl PollerThread {
    /// # Errors
    /// The system's, when it cannot start a thread.
    pub(crate) fn start(
        poller: &Arc<Poller>,
        now: impl Fn() -> Timestamp + Send + 'static,
        act: impl FnMut(u64, Timestamp) + Send + 'static,
    ) -> io::Result<Self> {
        let polled = Arc::clone(poller);
        let thread = thread::Builder::new().name("encke-rest".into()).spawn(move || {
            // Nobody would hear what clients at rest say, while their bytes count as life.
            let _abort = AbortOnPanic;
            // Answers to pings come while others leave: interrupting a worker for each would take longer than all there is to do for it.
            // Where that is not allowed, it is only dearer.
            let _ = encke_sys::wait_for_turn();
            polled.run(now, act);
        })?;
        Ok(Self { poller: Arc::clone(poller), thread: Some(thread) })
    }

    /// From now on none of its connections goes to rest.
    pub(crate) fn stop(mut self) {
        self.poller.stop();
        self.join();
    }
}

impl PollerThread {
    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked: that would have ended the process.
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
