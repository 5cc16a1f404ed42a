use std::sync::Arc;
use std::task::Waker;

use crossbeam_channel::{Receiver, Sender};
use encke_core::Timestamp;
use encke_wheel::StandingTimers;

use super::scheme::UseTimers;
use super::wheel_loop::{Entry, WheelLoop};
use super::wheel_thread::WheelParts;
use super::{Batch, TickLength, Timeouts, Timer, WheelSettings};

/// The wheel's loop without its thread, on any scheme: a simulation decides when it goes on.
///
/// It goes through [`SteppedWheel::turn`], [`SteppedWheel::fall_asleep`], a sleep if that allows it, and
/// [`SteppedWheel::awake`]. The sleep ends at the instant that the turn returned, or when the waker is called; it may
/// end earlier or later than that.
pub(crate) struct SteppedWheel(Box<dyn Step + Send>);

impl SteppedWheel {
    /// `waker` ends the wheel's sleep, as unparking ends that of the thread.
    pub(crate) fn new(
        settings: WheelSettings,
        timeouts: Arc<Timeouts>,
        to_arm: Receiver<Timer>,
        batches: Sender<Batch>,
        waker: Waker,
    ) -> Self {
        let now = TickLength::of(settings.tick).last_at_or_before(timeouts.clock().now());
        timeouts.wheel_waker.get_or_init(|| waker);
        settings.scheme.timers(now, Boxed(WheelParts { settings, timeouts, to_arm, batches }))
    }

    /// Arms what was sent, and sends what has expired. Returns until when the wheel may sleep.
    pub(crate) fn turn(&mut self) -> Timestamp {
        self.0.turn()
    }

    /// Announces a sleep. Returns whether the wheel may sleep; otherwise the next turn follows at once.
    pub(crate) fn fall_asleep(&mut self, wake_up: Timestamp) -> bool {
        self.0.fall_asleep(wake_up)
    }

    /// Ends the sleep, or what was announced of it.
    pub(crate) fn awake(&self) {
        self.0.awake();
    }
}

trait Step {
    fn turn(&mut self) -> Timestamp;
    fn fall_asleep(&mut self, wake_up: Timestamp) -> bool;
    fn awake(&self);
}

impl<W: StandingTimers<Entry>> Step for WheelLoop<W> {
    fn turn(&mut self) -> Timestamp {
        self.turn()
    }

    fn fall_asleep(&mut self, wake_up: Timestamp) -> bool {
        self.fall_asleep(wake_up)
    }

    fn awake(&self) {
        self.awake();
    }
}

struct Boxed(WheelParts);

impl UseTimers<Entry> for Boxed {
    type Output = SteppedWheel;

    fn with<W: StandingTimers<Entry> + Send + 'static>(self, wheel: W) -> Self::Output {
        SteppedWheel(Box::new(WheelLoop::new(self.0, wheel)))
    }
}
