//! The threads that watch parked connections for input, and the task that signals idle connections to park.

use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Waker};
use std::time::Duration;

use encke_base::executor::{Runtime, yield_now};
use encke_base::parking::{AnyPoller, IdleQueue, Poller, PollerThread, Pollers};
use encke_core::Timestamp;
use encke_core::session::ConnectionId;
use encke_timeouts::{Sleep, Timeouts};
use tokio::runtime::Handle;

use crate::client::{ConnectionParking, Services};
use crate::session::{SessionRef, Sessions};

/// Number of connections that are signalled before other tasks get a turn.
const SIGNALS_PER_PASS: usize = 256;

/// Number of runtime threads per poller thread. One poller keeps up with several: a wake-up takes it 4 to 8
/// µs, and the runtime, which has other work, 6 to 11 µs. A ping takes it 2.5 µs, and a timer worker (two by
/// default) 6.5 µs.
const WORKERS_PER_POLLER: usize = 4;

/// Creates the shared state for parking connections. `None` if connections are never parked.
///
/// # Errors
/// Returns errors from the operating system.
pub(crate) fn create_parking(
    idle_time: Option<Duration>,
    runtime: &Handle,
) -> io::Result<Option<ConnectionParking>> {
    let Some(idle_time) = idle_time else { return Ok(None) };
    let poller = AnyPoller::Kernel(Pollers::new(runtime.metrics().num_workers() / WORKERS_PER_POLLER)?);
    Ok(Some(ConnectionParking {
        idle_time,
        idle_queue: IdleQueue::default(),
        poller,
        runtime: Runtime::Tokio(runtime.clone()),
    }))
}

/// The running poller threads, if there are any. The task that signals idle connections stops with the
/// runtime.
#[derive(Debug)]
pub(crate) struct ParkingThreads(Option<(Vec<PollerThread>, Arc<Sessions>)>);

impl ParkingThreads {
    /// Starts the threads and the task, if connections can be parked.
    ///
    /// # Errors
    /// Returns an error from the operating system if a thread cannot be started. Threads that were already
    /// started are stopped.
    pub(crate) fn start(services: &Arc<Services>) -> io::Result<Self> {
        let Some(parking) = &services.parking else { return Ok(Self(None)) };
        parking.runtime.spawn(signal_idle_connections(Arc::clone(services)));
        // A simulation polls by itself, without a thread.
        let Some(pollers) = parking.poller.kernel() else { return Ok(Self(None)) };
        let threads =
            pollers.iter().map(|poller| start_poller(poller, services)).collect::<Result<_, _>>()?;
        Ok(Self(Some((threads, Arc::clone(&services.sessions)))))
    }

    /// Stops the threads, and closes the parked connections.
    pub(crate) fn stop(self) {
        if let Some((threads, sessions)) = self.0 {
            drop(threads);
            sessions.lifecycle.close_parked();
        }
    }
}

/// Starts one poller thread.
fn start_poller(poller: &Arc<Poller>, services: &Services) -> io::Result<PollerThread> {
    let (sessions, timeouts) = (Arc::clone(&services.sessions), Arc::clone(&services.timeouts));
    let now = move || timeouts.clock().now();
    PollerThread::start(poller, now, move |number, now| {
        let session = SessionRef::from_u64(number);
        // A session that panics ends by itself; anything else must not end the thread, either.
        if catch_unwind(AssertUnwindSafe(|| sessions.lifecycle.handle_readable(session, now))).is_err() {
            tracing::error!("panic while handling input on a parked connection; the thread continues");
        }
    })
}

/// Signals connections whose idle delay has elapsed. This is a task because one task can wake another without
/// a system call.
async fn signal_idle_connections(services: Arc<Services>) {
    let (Some(parking), timeouts) = (&services.parking, &services.timeouts) else { return };
    let mut due = Vec::new();
    loop {
        wait_for_next_check(&parking.idle_queue, timeouts).await;
        while parking.idle_queue.take_due(timeouts.clock().now(), &mut due, SIGNALS_PER_PASS) {
            signal_idle(&services.sessions, &mut due);
            yield_now().await;
        }
        signal_idle(&services.sessions, &mut due);
    }
}

fn signal_idle(sessions: &Sessions, due: &mut Vec<(SessionRef, ConnectionId)>) {
    let tasks =
        due.drain(..).filter_map(|(session, connection)| sessions.lifecycle.signal_idle(session, connection));
    tasks.for_each(Waker::wake);
}

async fn wait_for_next_check<T>(queue: &IdleQueue<T>, timeouts: &Arc<Timeouts>) {
    let mut sleeping: Option<(Timestamp, Sleep)> = None;
    let check = poll_fn(|task| {
        let Some(at) = queue.next_check(task.waker()) else { return task::Poll::Pending };
        if sleeping.as_ref().is_none_or(|(until, _)| *until != at) {
            sleeping = Some((at, timeouts.sleep_until(at)));
        }
        let (_, sleep) = sleeping.as_mut().expect("it was just created");
        Pin::new(sleep).poll(task)
    });
    check.await;
}
