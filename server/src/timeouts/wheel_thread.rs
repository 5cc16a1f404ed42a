use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use encke_wheel::ReusableTimers;

use super::scheme::{TimerScheme, TimersVisitor};
use super::wheel_loop::{WheelEntry, WheelLoop};
use super::{ExpiryBatch, TickLength, Timeouts, Timer};
use crate::abort_on_panic::AbortOnPanic;

/// Settings of the wheel thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WheelSettings {
    pub(crate) scheme: TimerScheme,
    /// The wheel's unit of time.
    pub(crate) tick: Duration,
    /// Minimum delay between an expiry and the next expiry that a session usually requests: the delay until
    /// the pong for the ping just sent is due.
    pub(crate) stall_threshold: Duration,
    /// Minimum delay after an expiry at which a session usually requests its next expiry: the delay until the
    /// pong for the ping just sent is due.
    pub(crate) rearm_delay: Duration,
}

impl WheelSettings {
    /// Maximum sleep, regardless of the next expiry. When the wheel receives a timer, its current tick may be
    /// this far behind.
    pub(crate) fn longest_sleep(&self) -> Duration {
        self.stall_threshold / 2
    }
}

#[derive(Debug)]
pub(crate) struct WheelThread {
    thread: JoinHandle<()>,
    timeouts: Arc<Timeouts>,
    stop: Arc<AtomicBool>,
}

impl WheelThread {
    /// Starts the thread, which sends expired timers to `batches`.
    ///
    /// # Errors
    /// The I/O error if the thread cannot be started.
    pub(crate) fn start(
        settings: WheelSettings,
        timeouts: Arc<Timeouts>,
        to_arm: Receiver<Timer>,
        batches: Sender<ExpiryBatch>,
    ) -> std::io::Result<Self> {
        let now = TickLength::of(settings.tick).last_at_or_before(timeouts.clock().now());
        settings.scheme.timers(now, Start(WheelParts { settings, timeouts, to_arm, batches }))
    }

    /// Stops the thread. The workers exit after it, once no batches are left.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.timeouts.wake_wheel();
        // The thread cannot have panicked: a panic in it aborts the process.
        let _ = self.thread.join();
    }
}

/// Parts of the wheel loop other than the wheel.
pub(super) struct WheelParts {
    pub(super) settings: WheelSettings,
    pub(super) timeouts: Arc<Timeouts>,
    pub(super) to_arm: Receiver<Timer>,
    pub(super) batches: Sender<ExpiryBatch>,
}

/// Starts the thread with a loop compiled for the configured scheme.
struct Start(WheelParts);

impl TimersVisitor<WheelEntry> for Start {
    type Output = std::io::Result<WheelThread>;

    fn visit<W: ReusableTimers<WheelEntry> + Send + 'static>(self, wheel: W) -> Self::Output {
        let timeouts = Arc::clone(&self.0.timeouts);
        let wheel_loop = WheelLoop::new(self.0, wheel);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("encke-wheel".into()).spawn(move || {
            // Abort on a panic: without this thread, no timeout would ever expire, and server time would
            // stand still.
            let _abort = AbortOnPanic;
            run(wheel_loop, &stopped);
        })?;
        let waker = Waker::from(Arc::new(Unpark(thread.thread().clone())));
        timeouts.wheel_waker.get_or_init(|| waker);
        Ok(WheelThread { thread, timeouts, stop })
    }
}

fn run<W: ReusableTimers<WheelEntry>>(mut wheel: WheelLoop<W>, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        let wake_up = wheel.turn();
        if wheel.prepare_sleep(wake_up) && !stop.load(Ordering::Acquire) {
            thread::park_timeout(wheel.remaining(wake_up));
        }
        wheel.end_sleep();
    }
}

/// Unparks the wheel thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}
