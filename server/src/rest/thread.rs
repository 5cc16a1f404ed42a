use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::poller::{Key, Poller};
use crate::abort_on_panic::AbortOnPanic;

/// The thread that looks what connections at rest have to read. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct PollerThread<T> {
    poller: Arc<Poller<T>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + Sync + 'static> PollerThread<T> {
    /// # Errors
    /// The system's, when it cannot start a thread.
    pub(crate) fn start(
        poller: &Arc<Poller<T>>,
        act: impl FnMut(&Arc<T>, Key) + Send + 'static,
    ) -> io::Result<Self> {
        let polled = Arc::clone(poller);
        let thread = thread::Builder::new().name("encke-rest".into()).spawn(move || {
            // Nobody would hear what clients at rest say, while their bytes count as life.
            let _abort = AbortOnPanic;
            polled.run(act);
        })?;
        Ok(Self { poller: Arc::clone(poller), thread: Some(thread) })
    }

    /// From now on no connection goes to rest. Returns the owners of those that are.
    pub(crate) fn stop(mut self) -> Vec<Arc<T>> {
        let owners = self.poller.stop();
        self.join();
        owners
    }
}

impl<T> PollerThread<T> {
    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            // It cannot have panicked: that would have ended the process.
            let _ = thread.join();
        }
    }
}

impl<T> Drop for PollerThread<T> {
    fn drop(&mut self) {
        if self.thread.is_some() {
            drop(self.poller.stop());
            self.join();
        }
    }
}
