use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use encke_core::Timestamp;
use encke_timeouts::AbortOnPanic;

use super::poller::Poller;

/// A thread that watches parked connections for input. The thread exits when this is dropped.
#[derive(Debug)]
pub struct PollerThread {
    poller: Arc<Poller>,
    thread: Option<JoinHandle<()>>,
}

impl PollerThread {
    /// Starts a thread that polls `poller` and calls `act` for each event.
    ///
    /// # Errors
    /// Returns an error from the operating system if the thread cannot be started.
    pub fn start(
        poller: &Arc<Poller>,
        now: impl Fn() -> Timestamp + Send + 'static,
        act: impl FnMut(u64, Timestamp) + Send + 'static,
    ) -> io::Result<Self> {
        let polled = Arc::clone(poller);
        let thread = thread::Builder::new().name("encke-poll".into()).spawn(move || {
            // Without this thread, input on parked connections would never be read, although its arrival
            // counts as evidence that the peer is alive.
            let _abort = AbortOnPanic;
            // Answers to pings arrive while other pings are being sent. Preempting a worker for each answer
            // would take longer than handling the answer. If the policy is not permitted, handling only
            // becomes more expensive.
            let _ = encke_sys::use_batch_scheduling();
            polled.run(now, act);
        })?;
        Ok(Self { poller: Arc::clone(poller), thread: Some(thread) })
    }
}

impl Drop for PollerThread {
    /// Stops the thread. The connections of its poller can no longer be parked afterwards.
    fn drop(&mut self) {
        self.poller.stop();
        if let Some(thread) = self.thread.take() {
            // A panic would have aborted the process.
            let _ = thread.join();
        }
    }
}
