//! All timeouts of the server: one timing wheel, owned by one thread, and the workers that handle expired
//! timers.
//!
//! ```text
//!   timer owners             timers to arm (crossbeam, unbounded, each timer at most once)
//!   sessions, logs, ... ──────────────────────────▶  wheel thread  ──▶ batches (crossbeam, bounded)  ──▶  workers
//! ```
//!
//! A request for a later deadline involves no other thread: the wheel reads it when the timer fires. Only a
//! request for an earlier deadline sends the timer to the wheel thread, and only a deadline before the
//! planned wake-up wakes that thread.
//!
//! A session's timer is stored in a table and addressed by the session's slot ([`Timer`]). Every other timer
//! contains a small key that identifies its owner ([`TimerOwner`]). The workers pass either of these to the
//! [`ExpiryHandler`]. This module does not know the owners' types.

mod arming;
mod dispatch_watch;
mod hyper_timer;
mod owners;
mod poll_expiry;
mod ring_stats;
mod ring_watch;
mod scheme;
mod sleep;
mod slot_timers;
mod standalone_timers;
#[cfg(any(test, feature = "simulation"))]
mod stepped;
mod sync;
mod tick_length;
mod timer;
mod timer_cell;
mod timer_owner;
mod wheel_loop;
mod wheel_settings;
mod wheel_sleep;
mod wheel_stats;
mod wheel_thread;
mod workers;

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};

use crate::clock::{Clock, nanos};
use arming::Arming;
use slot_timers::SlotTimers;
use tick_length::TickLength;
use wheel_stats::WheelStats;

pub(crate) use arming::{ArmAction, RequestedDeadline};
use dispatch_watch::DispatchWatch;
pub(crate) use dispatch_watch::{DISPATCH_BATCHES, MAX_WORKERS};
pub(crate) use hyper_timer::WheelTimer;
pub(crate) use owners::TimerOwners;
pub(crate) use ring_stats::RingView;
pub(crate) use ring_watch::RingWatch;
pub use scheme::TimerScheme;
pub(crate) use sleep::Sleep;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use stepped::SteppedWheel;
pub(crate) use timer::{Timer, TimerRef};
pub(crate) use timer_cell::TimerCell;
pub(crate) use timer_owner::{OwnerKey, TimerOwner};
pub(crate) use wheel_settings::WheelSettings;
pub(crate) use wheel_thread::WheelThread;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use workers::ExpiryWorker;
pub(crate) use workers::{ExpiryBatch, ExpiryHandler, WorkerPool};

/// Shared handle to the timeouts, used by every thread except the wheel thread.
#[derive(Debug)]
pub(crate) struct Timeouts {
    clock: Arc<Clock>,
    slack: u64,
    to_arm: Sender<Timer>,
    slot_timers: SlotTimers,
    parking: wheel_sleep::WheelSleep,
    /// Wakes the wheel thread.
    wheel_waker: OnceLock<Waker>,
    /// Statistics that the wheel thread publishes.
    pub(crate) stats: WheelStats,
    pub(crate) dispatch: DispatchWatch,
}

/// Part of the timeout machinery that has stalled. A server in this state looks healthy from outside but no
/// longer detects dead clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stalled {
    /// The wheel thread has stopped turning.
    Wheel,
    /// The workers do not handle expired timers.
    Workers,
}

impl Timeouts {
    /// Creates the shared handle and the receiver of timers to arm, which belongs to the wheel thread.
    /// Sessions occupy at most `slots` slots.
    #[must_use]
    pub(crate) fn new(clock: Arc<Clock>, ping_slack: Duration, slots: usize) -> (Arc<Self>, Receiver<Timer>) {
        let (to_arm, received) = crossbeam_channel::unbounded();
        let timeouts = Self {
            clock,
            slack: nanos(ping_slack),
            to_arm,
            slot_timers: SlotTimers::new(slots),
            parking: wheel_sleep::WheelSleep::new(),
            wheel_waker: OnceLock::new(),
            stats: WheelStats::default(),
            dispatch: DispatchWatch::default(),
        };
        (Arc::new(timeouts), received)
    }

    /// The clock that deadlines refer to.
    #[must_use]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Maximum time by which a soft expiry may follow its deadline.
    #[must_use]
    pub(crate) fn slack(&self) -> Duration {
        Duration::from_nanos(self.slack)
    }

    /// Stores the deadline that the owner of `timer` requests. The owner passes the result to
    /// [`Timeouts::carry_out`] after it has released all locks.
    pub(crate) fn request<'a>(
        &'a self,
        timer: impl Into<TimerRef<'a>>,
        deadline: RequestedDeadline,
    ) -> ArmAction {
        self.arming(timer.into()).request(deadline, self.slack)
    }

    /// Sends the timer to the wheel thread if `action` requires it, and wakes that thread if it would
    /// otherwise sleep past the deadline.
    pub(crate) fn carry_out<'a>(&'a self, timer: impl Into<TimerRef<'a>>, action: ArmAction) {
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
    pub(crate) fn arm<'a>(&'a self, timer: impl Into<TimerRef<'a>>, deadline: RequestedDeadline) {
        let timer = timer.into();
        let action = self.request(timer, deadline);
        self.carry_out(timer, action);
    }

    /// Time since the wheel last turned, according to the machine's clock, including stalls.
    #[must_use]
    pub(crate) fn since_last_turn(&self) -> Duration {
        let last = Duration::from_nanos(self.stats.last_turn_nanos.load(Ordering::Relaxed));
        self.clock.uptime().saturating_sub(last)
    }

    /// Age of the oldest expiry that no worker has finished handling.
    #[must_use]
    pub(crate) fn dispatch_age(&self) -> Duration {
        self.dispatch.oldest().map_or(Duration::ZERO, |oldest| self.clock.now().since(oldest))
    }

    /// Checks that the wheel has turned, and that expiries have been handled, within the last `watchdog`.
    ///
    /// # Errors
    /// The part that has stalled.
    pub(crate) fn health(&self, watchdog: Duration) -> Result<(), Stalled> {
        if self.since_last_turn() > watchdog {
            Err(Stalled::Wheel)
        } else if self.dispatch_age() > watchdog {
            Err(Stalled::Workers)
        } else {
            Ok(())
        }
    }

    #[must_use]
    pub(crate) fn entries(&self) -> usize {
        self.stats.entries.load(Ordering::Relaxed)
    }

    /// Returns the arming state that the timer's owner shares with the wheel thread.
    #[inline]
    fn arming<'a>(&'a self, timer: TimerRef<'a>) -> &'a Arming {
        match timer {
            Timer::Slot(slot) => self.slot_timers.get(slot),
            Timer::Standalone(timer) => &timer.arming,
        }
    }

    fn wake_wheel(&self) {
        if let Some(waker) = self.wheel_waker.get() {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod ring_tests;
#[cfg(test)]
mod stepped_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod turn_tests;
