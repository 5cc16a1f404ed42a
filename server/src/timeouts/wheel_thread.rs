use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use encke_wheel::StandingTimers;

use super::scheme::{Scheme, UseTimers};
use super::wheel_loop::{Entry, WheelLoop};
use super::{Batch, TickLength, Timeouts, Timer};
use crate::abort_on_panic::AbortOnPanic;

/// How the wheel thread turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WheelSettings {
    /// How the wheel keeps its timers.
    pub(crate) scheme: Scheme,
    /// The wheel's unit of time.
    pub(crate) tick: Duration,
    /// Waking later than planned by more than this is a stall.
    pub(crate) stall_threshold: Duration,
    /// How long after an expiry the owner mostly wants the next, at the earliest: for a session, the pong of the ping that has just left.
    pub(crate) armed_again_after: Duration,
}

impl WheelSettings {
    /// However far the next expiry is. So far behind may the wheel stand when it receives a timer.
    pub(crate) fn longest_sleep(&self) -> Duration {
        self.stall_threshold / 2
    }
}

/// The running wheel thread.
#[derive(Debug)]
pub(crate) struct WheelThread {
    thread: JoinHandle<()>,
    timeouts: Arc<Timeouts>,
    stop: Arc<AtomicBool>,
}

impl WheelThread {
    /// Starts the thread, which sends what expires into `batches`.
    ///
    /// # Errors
    /// The system's, when it cannot start a thread.
    pub(crate) fn start(
        settings: WheelSettings,
        timeouts: Arc<Timeouts>,
        to_arm: Receiver<Timer>,
        batches: Sender<Batch>,
    ) -> std::io::Result<Self> {
        let now = TickLength::of(settings.tick).last_at_or_before(timeouts.clock().now());
        settings.scheme.timers(now, Start(WheelParts { settings, timeouts, to_arm, batches }))
    }

    /// Ends the thread. The workers, finding no more batches, end after it.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.timeouts.wake_wheel();
        // It cannot have panicked: that would have ended the process.
        let _ = self.thread.join();
    }
}

/// All that the wheel's loop needs beside a wheel.
pub(super) struct WheelParts {
    pub(super) settings: WheelSettings,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) to_arm: Receiver<Timer>,
    pub(super) batches: Sender<Batch>,
}

/// Starts the thread. Its loop is compiled for the very scheme.
struct Start(WheelParts);

impl UseTimers<Entry> for Start {
    type Output = std::io::Result<WheelThread>;

    fn with<W: StandingTimers<Entry> + Send + 'static>(self, wheel: W) -> Self::Output {
        let timeouts = Arc::clone(&self.0.timeouts);
        let wheel_loop = WheelLoop::new(self.0, wheel);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("encke-wheel".into()).spawn(move || {
            // No timeout would ever pass, and the server's time would stand still.
            let _abort = AbortOnPanic;
            run(wheel_loop, &stopped);
        })?;
        let waker = Waker::from(Arc::new(Unpark(thread.thread().clone())));
        timeouts.wheel_waker.get_or_init(|| waker);
        Ok(WheelThread { thread, timeouts, stop })
    }
}

fn run<W: StandingTimers<Entry>>(mut wheel: WheelLoop<W>, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        let wake_up = wheel.turn();
        if wheel.fall_asleep(wake_up) && !stop.load(Ordering::Acquire) {
            thread::park_timeout(wheel.remaining(wake_up));
        }
        wheel.awake();
    }
}

/// Wakes the wheel thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
