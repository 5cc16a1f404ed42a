use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use crossbeam_channel::{Receiver, Sender};
use encke_core::Timestamp;
use encke_wheel::ReusableTimers;

use crate::scheme::TimersVisitor;
use crate::tick_length::TickLength;
use crate::timeouts::Timeouts;
use crate::timer::Timer;
use crate::wheel_loop::{WheelEntry, WheelLoop, WheelParts};
use crate::wheel_settings::WheelSettings;
use crate::workers::ExpiryBatch;

/// Wheel loop without its thread, for any scheme. A simulation decides when it continues.
///
/// The caller repeats [`SteppedWheel::turn`], [`SteppedWheel::prepare_sleep`], a sleep if that allows it, and
/// [`SteppedWheel::end_sleep`]. The sleep should end at the time returned by `turn` or when the waker is
/// called; it may also end earlier or later.
pub struct SteppedWheel(Box<dyn Step + Send>);

impl fmt::Debug for SteppedWheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SteppedWheel").finish_non_exhaustive()
    }
}

impl SteppedWheel {
    /// Creates the loop. `waker` is called to end the wheel's sleep, as unparking ends the thread's.
    pub fn new(
        settings: WheelSettings,
        timeouts: Arc<Timeouts>,
        to_arm: Receiver<Timer>,
        batches: Sender<ExpiryBatch>,
        waker: Waker,
    ) -> Self {
        let now = TickLength::of(settings.tick).last_at_or_before(timeouts.clock().now());
        timeouts.wheel_waker.get_or_init(|| waker);
        settings.scheme.timers(now, BoxLoop(WheelParts { settings, timeouts, to_arm, batches }))
    }

    /// Arms the received timers and sends the expired ones. Returns the time until which the wheel may sleep.
    pub fn turn(&mut self) -> Timestamp {
        self.0.turn()
    }

    /// Announces a sleep. Returns whether the wheel may sleep; if not, the next turn follows immediately.
    pub fn prepare_sleep(&mut self, wake_up: Timestamp) -> bool {
        self.0.fall_asleep(wake_up)
    }

    /// Ends the announced sleep.
    pub fn end_sleep(&self) {
        self.0.awake();
    }
}

trait Step {
    fn turn(&mut self) -> Timestamp;
    fn fall_asleep(&mut self, wake_up: Timestamp) -> bool;
    fn awake(&self);
}

impl<W: ReusableTimers<WheelEntry>> Step for WheelLoop<W> {
    fn turn(&mut self) -> Timestamp {
        self.turn()
    }

    fn fall_asleep(&mut self, wake_up: Timestamp) -> bool {
        self.prepare_sleep(wake_up)
    }

    fn awake(&self) {
        self.end_sleep();
    }
}

struct BoxLoop(WheelParts);

impl TimersVisitor<WheelEntry> for BoxLoop {
    type Output = SteppedWheel;

    fn visit<W: ReusableTimers<WheelEntry> + Send + 'static>(self, wheel: W) -> Self::Output {
        SteppedWheel(Box::new(WheelLoop::new(self.0, wheel)))
    }
}
