use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle, Thread};

use crossbeam_channel::{Receiver, Sender};
use encke_wheel::ReusableTimers;

use crate::abort_on_panic::AbortOnPanic;
use crate::scheme::TimersVisitor;
use crate::tick_length::TickLength;
use crate::timeouts::Timeouts;
use crate::timer::Timer;
use crate::wheel_loop::{WheelEntry, WheelLoop, WheelParts};
use crate::wheel_settings::WheelSettings;
use crate::workers::ExpiryBatch;

/// The running wheel thread.
#[derive(Debug)]
pub struct WheelThread {
    thread: JoinHandle<()>,
    timeouts: Arc<Timeouts>,
    stop: Arc<AtomicBool>,
}

impl WheelThread {
    /// Starts the thread, which sends expired timers to `batches`.
    ///
    /// # Errors
    /// The I/O error if the thread cannot be started.
    pub fn start(
        settings: WheelSettings,
        timeouts: Arc<Timeouts>,
        to_arm: Receiver<Timer>,
        batches: Sender<ExpiryBatch>,
    ) -> std::io::Result<Self> {
        let now = TickLength::of(settings.tick).last_at_or_before(timeouts.clock().now());
        settings.scheme.timers(now, Start(WheelParts { settings, timeouts, to_arm, batches }))
    }

    /// Stops the thread. The workers exit after it, once no batches are left.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.timeouts.wake_wheel();
        // The thread cannot have panicked: a panic in it aborts the process.
        let _ = self.thread.join();
    }
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
