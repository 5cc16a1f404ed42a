use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};

use crate::arming::{ArmAction, Arming, RequestedDeadline};
use crate::clock::{Clock, nanos};
use crate::dispatch_watch::DispatchWatch;
use crate::slot_timers::SlotTimers;
use crate::timer::{Timer, TimerRef};
use crate::wheel_sleep::WheelSleep;
use crate::wheel_stats::WheelStats;

/// Shared handle to the timeouts, used by every thread except the wheel thread.
#[derive(Debug)]
pub struct Timeouts {
    clock: Arc<Clock>,
    pub(crate) slack: u64,
    to_arm: Sender<Timer>,
    slot_timers: SlotTimers,
    pub(crate) parking: WheelSleep,
    /// Wakes the wheel thread.
    pub(crate) wheel_waker: OnceLock<Waker>,
    /// Statistics that the wheel thread publishes.
    pub stats: WheelStats,
    pub(crate) dispatch: DispatchWatch,
}

/// Part of the timeout machinery that has stalled. A server in this state looks healthy from outside but no
/// longer detects dead clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stalled {
    /// The wheel thread has stopped turning.
    Wheel,
    /// The workers do not handle expired timers.
    Workers,
}

impl Timeouts {
    /// Creates the shared handle and the receiver of timers to arm, which belongs to the wheel thread.
    /// Sessions occupy at most `slots` slots.
    #[must_use]
    pub fn new(clock: Arc<Clock>, ping_slack: Duration, slots: usize) -> (Arc<Self>, Receiver<Timer>) {
        let (to_arm, received) = crossbeam_channel::unbounded();
        let timeouts = Self {
            clock,
            slack: nanos(ping_slack),
            to_arm,
            slot_timers: SlotTimers::new(slots),
            parking: WheelSleep::new(),
            wheel_waker: OnceLock::new(),
            stats: WheelStats::default(),
            dispatch: DispatchWatch::default(),
        };
        (Arc::new(timeouts), received)
    }

    /// The clock that deadlines refer to.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Maximum time by which a soft expiry may follow its deadline.
    #[must_use]
    pub fn slack(&self) -> Duration {
        Duration::from_nanos(self.slack)
    }

    /// Stores the deadline that the owner of `timer` requests. The owner passes the result to
    /// [`Timeouts::carry_out`] after it has released all locks.
    pub fn request<'a>(&'a self, timer: impl Into<TimerRef<'a>>, deadline: RequestedDeadline) -> ArmAction {
        self.arming(timer.into()).request(deadline, self.slack)
    }

    /// Sends the timer to the wheel thread if `action` requires it, and wakes that thread if it would
    /// otherwise sleep past the deadline.
    pub fn carry_out<'a>(&'a self, timer: impl Into<TimerRef<'a>>, action: ArmAction) {
        let timer = timer.into();
        match action {
            ArmAction::Nothing => return,
            // Sending fails only during shutdown, after the wheel thread has exited.
            ArmAction::Send => _ = self.to_arm.send(timer.to_timer()),
            ArmAction::Wake => {}
        }
        // Use the newest request rather than the one that led to `action`: another thread may have requested
        // an earlier deadline and left it to this thread to send the timer.
        if let Some(latest) = self.arming(timer).newest_request().latest(self.slack)
            && self.parking.sleeps_beyond(latest)
        {
            self.wake_wheel();
        }
    }

    /// Requests a deadline and carries out the resulting action. The caller must not hold a lock.
    pub fn arm<'a>(&'a self, timer: impl Into<TimerRef<'a>>, deadline: RequestedDeadline) {
        let timer = timer.into();
        let action = self.request(timer, deadline);
        self.carry_out(timer, action);
    }

    /// Time since the wheel last turned, according to the machine's clock, including stalls.
    #[must_use]
    pub fn since_last_turn(&self) -> Duration {
        let last = Duration::from_nanos(self.stats.last_turn_nanos.load(Ordering::Relaxed));
        self.clock.uptime().saturating_sub(last)
    }

    /// Age of the oldest expiry that no worker has finished handling.
    #[must_use]
    pub fn dispatch_age(&self) -> Duration {
        self.dispatch.oldest().map_or(Duration::ZERO, |oldest| self.clock.now().since(oldest))
    }

    /// Checks that the wheel has turned, and that expiries have been handled, within the last `watchdog`.
    ///
    /// # Errors
    /// The part that has stalled.
    pub fn health(&self, watchdog: Duration) -> Result<(), Stalled> {
        if self.since_last_turn() > watchdog {
            Err(Stalled::Wheel)
        } else if self.dispatch_age() > watchdog {
            Err(Stalled::Workers)
        } else {
            Ok(())
        }
    }

    /// Number of panics that the workers have caught.
    #[must_use]
    pub fn worker_panics(&self) -> u64 {
        self.dispatch.worker_panics.load(Ordering::Relaxed)
    }

    /// Number of timers in the wheel, including those that the workers are handling.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.stats.entries.load(Ordering::Relaxed)
    }

    /// Returns the arming state that the timer's owner shares with the wheel thread.
    #[inline]
    pub(crate) fn arming<'a>(&'a self, timer: TimerRef<'a>) -> &'a Arming {
        match timer {
            Timer::Slot(slot) => self.slot_timers.get(slot),
            Timer::Standalone(timer) => &timer.arming,
        }
    }

    pub(crate) fn wake_wheel(&self) {
        if let Some(waker) = self.wheel_waker.get() {
            waker.wake_by_ref();
        }
    }
}
