//! Every timeout of the server: one wheel, owned by one thread, and the workers that act on what expires.
//!
//! ```text
//!   owners of timers         timers to arm (crossbeam, unbounded, each at most once)
//!   sessions, logs, ... ──────────────────────────▶  wheel thread  ──▶ batches (crossbeam, bounded)  ──▶  workers
//! ```
//!
//! A request for a later deadline crosses no thread: the wheel reads it when the entry fires. Only a request for an
//! earlier one sends the timer, and only one earlier than the wheel's planned wake-up wakes the wheel.
//!
//! A session's timer lies in a table, by the slot that the session lives in ([`Timer`]). Any other has a small key of its owner ([`TimerOwner`]). The workers hand
//! either to the code that acts on expiries ([`ActOnExpiry`]). This room does not know what an owner is.

mod arming;
mod dispatch_watch;
mod firing;
mod hyper_timer;
mod own_timers;
mod owners;
mod parking;
mod ring_stats;
mod scheme;
mod sleep;
mod slots;
#[cfg(any(test, feature = "simulation"))]
mod stepped;
mod tick_length;
mod timer;
mod timer_cell;
mod waiting;
mod wheel_loop;
mod wheel_stats;
mod wheel_thread;
mod workers;

/// What `arming.rs`, `parking.rs` and `waiting.rs` are built on; the loom test builds them on loom's instead.
mod sync {
    pub(super) use atomic_waker::AtomicWaker;
    pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
}

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};

use crate::clock::{Clock, nanos};
use arming::Arming;
use slots::SlotTimers;
use tick_length::TickLength;
use wheel_stats::WheelStats;

pub(crate) use arming::{ArmAction, RequestedDeadline};
use dispatch_watch::DispatchWatch;
pub(crate) use dispatch_watch::MOST_WORKERS;
pub(crate) use hyper_timer::WheelTimer;
pub(crate) use owners::{OwnerKey, Owners, TimerOwner};
pub(crate) use ring_stats::{RingView, RingWatch};
pub use scheme::Scheme;
pub(crate) use sleep::Sleep;
#[cfg(any(test, feature = "simulation"))]
pub(crate) use stepped::SteppedWheel;
pub(crate) use timer::{Timer, TimerRef};
pub(crate) use timer_cell::TimerCell;
pub(crate) use wheel_thread::{WheelSettings, WheelThread};
#[cfg(any(test, feature = "simulation"))]
pub(crate) use workers::Worker;
pub(crate) use workers::{ActOnExpiry, Batch, DISPATCH_BATCHES, WorkerPool};

/// The side of the timeouts that everyone but the wheel thread sees.
#[derive(Debug)]
pub(crate) struct Timeouts {
    clock: Arc<Clock>,
    slack: u64,
    to_arm: Sender<Timer>,
    of_slots: SlotTimers,
    parking: parking::Parking,
    /// Ends the wheel's sleep.
    wheel_waker: OnceLock<Waker>,
    /// What the wheel thread says about itself.
    pub(crate) stats: WheelStats,
    /// What waits for the workers.
    pub(crate) dispatch: DispatchWatch,
}

/// Why no timeout passes. A server of which this is true looks well from outside, but no longer finds dead clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stalled {
    /// The wheel does not turn.
    Wheel,
    /// Nobody acts on what expires.
    Workers,
}

impl Timeouts {
    /// Makes both ends: this side, and the timers that the wheel thread receives. Sessions live in at most so many slots.
    #[must_use]
    pub(crate) fn new(clock: Arc<Clock>, ping_slack: Duration, slots: usize) -> (Arc<Self>, Receiver<Timer>) {
        let (to_arm, received) = crossbeam_channel::unbounded();
        let timeouts = Self {
            clock,
            slack: nanos(ping_slack),
            to_arm,
            of_slots: SlotTimers::new(slots),
            parking: parking::Parking::new(),
            wheel_waker: OnceLock::new(),
            stats: WheelStats::default(),
            dispatch: DispatchWatch::default(),
        };
        (Arc::new(timeouts), received)
    }

    /// The clock that the deadlines are read on.
    #[must_use]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How long after its deadline a soft expiry may come.
    #[must_use]
    pub(crate) fn slack(&self) -> Duration {
        Duration::from_nanos(self.slack)
    }

    /// Stores the deadline that the owner of `timer` requests. Once every lock is released, the owner passes the
    /// result to [`Timeouts::carry_out`].
    pub(crate) fn request<'a>(
        &'a self,
        timer: impl Into<TimerRef<'a>>,
        deadline: RequestedDeadline,
    ) -> ArmAction {
        self.arming(timer.into()).request(deadline, self.slack)
    }

    /// Sends a timer to the wheel if it must, and wakes the wheel if it would sleep too long.
    pub(crate) fn carry_out<'a>(&'a self, timer: impl Into<TimerRef<'a>>, action: ArmAction) {
        let timer = timer.into();
        match action {
            ArmAction::Nothing => return,
            // It fails only when the wheel thread is gone, at the very end of the server's life.
            ArmAction::Send => _ = self.to_arm.send(timer.to_timer()),
            ArmAction::Wake => {}
        }
        // The newest request, not the one that led here: another thread may have requested something earlier, and
        // left the sending to this one.
        if let Some(latest) = self.arming(timer).newest_request().latest(self.slack)
            && self.parking.sleeps_beyond(latest)
        {
            self.wake_wheel();
        }
    }

    /// Requests a deadline and carries out what follows. For owners that hold no lock.
    pub(crate) fn arm<'a>(&'a self, timer: impl Into<TimerRef<'a>>, deadline: RequestedDeadline) {
        let timer = timer.into();
        let action = self.request(timer, deadline);
        self.carry_out(timer, action);
    }

    /// How long ago the wheel last turned, by the machine's clock.
    #[must_use]
    pub(crate) fn since_last_turn(&self) -> Duration {
        let last = Duration::from_nanos(self.stats.last_turn_nanos.load(Ordering::Relaxed));
        self.clock.uptime().saturating_sub(last)
    }

    /// How long the oldest expiry has waited that no worker has acted on yet.
    #[must_use]
    pub(crate) fn dispatch_age(&self) -> Duration {
        self.dispatch.oldest().map_or(Duration::ZERO, |oldest| self.clock.now().since(oldest))
    }

    /// Whether time passes: the wheel has turned, and what expired was acted on, within `watchdog`.
    ///
    /// # Errors
    /// What stands still.
    pub(crate) fn health(&self, watchdog: Duration) -> Result<(), Stalled> {
        if self.since_last_turn() > watchdog {
            Err(Stalled::Wheel)
        } else if self.dispatch_age() > watchdog {
            Err(Stalled::Workers)
        } else {
            Ok(())
        }
    }

    /// Has the wheel thread say what its rings of slots hold, for as long as the watch is kept.
    #[must_use]
    pub(crate) fn watch_rings(self: &Arc<Self>) -> RingWatch {
        RingWatch::new(Arc::clone(self))
    }

    /// Timers in the wheel.
    #[must_use]
    pub(crate) fn entries(&self) -> usize {
        self.stats.entries.load(Ordering::Relaxed)
    }

    /// What the owner of a timer and the wheel thread have agreed on.
    #[inline]
    fn arming<'a>(&'a self, timer: TimerRef<'a>) -> &'a Arming {
        match timer {
            Timer::OfSlot(slot) => self.of_slots.get(slot),
            Timer::Own(timer) => &timer.arming,
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
