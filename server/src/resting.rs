//! Connections at rest: the thread that looks what they have to read.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::arena::Ref;
use crate::client::Context;
use crate::rest::{Poller, PollerThread, Rest};
use crate::session::Sessions;

/// What connections need in order to rest. Nothing, if they never do.
///
/// # Errors
/// The system's.
pub(crate) fn rest(after: Option<Duration>, runtime: &Handle) -> io::Result<Option<Rest>> {
    let Some(after) = after else { return Ok(None) };
    Ok(Some(Rest { after, poller: Arc::new(Poller::new()?), runtime: runtime.clone() }))
}

/// The running thread, if there is one.
#[derive(Debug)]
pub(crate) struct Resting(Option<(PollerThread, Arc<Sessions>)>);

impl Resting {
    /// # Errors
    /// The system's, when it cannot start a thread.
    pub(crate) fn start(context: &Arc<Context>) -> io::Result<Self> {
        let Some(rest) = &context.rest else { return Ok(Self(None)) };
        let sessions = Arc::clone(&context.sessions);
        let thread = PollerThread::start(&rest.poller, move |number| {
            let session = Ref::of_number(number);
            // A fault in one session, or in a hook, must not stop those of all others.
            if catch_unwind(AssertUnwindSafe(|| sessions.readable(session))).is_err()
                && let Some(session) = sessions.get(session)
            {
                tracing::error!(session = %session.id(), "what a connection at rest has sent led to a panic");
                session.wake_at_rest();
            }
        })?;
        Ok(Self(Some((thread, Arc::clone(&context.sessions)))))
    }

    /// Ends the thread. Connections that are at rest are cut.
    pub(crate) fn stop(self) {
        if let Some((thread, sessions)) = self.0 {
            thread.stop();
            sessions.cut_at_rest();
        }
    }
}
