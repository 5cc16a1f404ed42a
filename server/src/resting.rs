//! Connections at rest: the threads that look what they have to read, and the task that tells others that they may rest.

use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Waker};
use std::time::Duration;

use encke_core::Timestamp;
use encke_core::session::ConnectionId;
use tokio::runtime::Handle;

use crate::arena::Ref;
use crate::client::{Context, Rest};
use crate::executor::{Runtime, yield_now};
use crate::rest::{AnyPoller, Line, Poller, PollerThread, Pollers};
use crate::session::{SessionRef, Sessions};
use crate::timeouts::{Sleep, Timeouts};

/// The most connections that are told at once that they may rest, before others have their turn.
const TOLD_AT_ONCE: usize = 256;

/// One thread looks for so many of the runtime's. Of what a wake-up takes, 4 to 8 µs are its own, and 6 to 11 are the runtime's, which has other
/// things to do; an answer to a ping takes it 2.5 µs, and the workers, of which there are two by default, 6.5.
const IO_THREADS_EACH: usize = 4;

/// What connections need in order to rest. Nothing, if they never do.
///
/// # Errors
/// The system's.
pub(crate) fn rest(after: Option<Duration>, runtime: &Handle) -> io::Result<Option<Rest>> {
    let Some(after) = after else { return Ok(None) };
    let poller = AnyPoller::Kernel(Pollers::new(runtime.metrics().num_workers() / IO_THREADS_EACH)?);
    Ok(Some(Rest { after, line: Line::default(), poller, runtime: Runtime::Tokio(runtime.clone()) }))
}

/// The running threads, if there are any. The task ends with the runtime.
#[derive(Debug)]
pub(crate) struct Resting(Option<(Vec<PollerThread>, Arc<Sessions>)>);

impl Resting {
    /// # Errors
    /// The system's, when it cannot start a thread. No other is left running then.
    pub(crate) fn start(context: &Arc<Context>) -> io::Result<Self> {
        let Some(rest) = &context.rest else { return Ok(Self(None)) };
        rest.runtime.spawn(tell_silent(Arc::clone(context)));
        // The simulation looks by itself.
        #[cfg_attr(
            not(feature = "simulation"),
            expect(irrefutable_let_patterns, reason = "there is no other")
        )]
        let AnyPoller::Kernel(pollers) = &rest.poller else { return Ok(Self(None)) };
        let threads = pollers.iter().map(|poller| look(poller, context)).collect::<Result<_, _>>()?;
        Ok(Self(Some((threads, Arc::clone(&context.sessions)))))
    }

    /// Ends the threads. Connections that are at rest are cut.
    pub(crate) fn stop(self) {
        if let Some((threads, sessions)) = self.0 {
            threads.into_iter().for_each(PollerThread::stop);
            sessions.cut_at_rest();
        }
    }
}

/// Starts a thread that looks.
fn look(poller: &Arc<Poller>, context: &Context) -> io::Result<PollerThread> {
    let (sessions, timeouts) = (Arc::clone(&context.sessions), Arc::clone(&context.timeouts));
    let now = move || timeouts.clock().now();
    PollerThread::start(poller, now, move |number, now| {
        let session = Ref::of_number(number);
        // A fault in one session, or in a hook, must not stop those of all others.
        if catch_unwind(AssertUnwindSafe(|| sessions.readable(session, now))).is_err()
            && let Some(session) = sessions.get(session)
        {
            tracing::error!(session = %session.id(), "what a connection at rest has sent led to a panic");
            session.wake_at_rest();
        }
    })
}

/// Tells connections that the delay is over after which they rest, if they were silent. It is a task, since one task wakes another without a
/// system call.
async fn tell_silent(context: Arc<Context>) {
    let (Some(rest), timeouts) = (&context.rest, &context.timeouts) else { return };
    let mut due = Vec::new();
    loop {
        until_next_look(&rest.line, timeouts).await;
        while rest.line.take_due(timeouts.clock().now(), &mut due, TOLD_AT_ONCE) {
            tell(&context.sessions, &mut due);
            yield_now().await;
        }
        tell(&context.sessions, &mut due);
    }
}

fn tell(sessions: &Sessions, due: &mut Vec<(SessionRef, ConnectionId)>) {
    let tasks = due.drain(..).filter_map(|(session, connection)| sessions.tell_silent(session, connection));
    tasks.for_each(Waker::wake);
}

async fn until_next_look<T>(line: &Line<T>, timeouts: &Arc<Timeouts>) {
    let mut sleeping: Option<(Timestamp, Sleep)> = None;
    let look = poll_fn(|task| {
        let Some(at) = line.next_look(task.waker()) else { return task::Poll::Pending };
        if sleeping.as_ref().is_none_or(|(until, _)| *until != at) {
            sleeping = Some((at, timeouts.sleep_until(at)));
        }
        let (_, sleep) = sleeping.as_mut().expect("it was made just now");
        Pin::new(sleep).poll(task)
    });
    look.await;
}
