//! Every timeout of the server: one wheel, owned by one thread, and the workers that act on what expires.
//!
//! ```text
//!   owners of names            names (crossbeam, unbounded, each at most once)
//!   sessions, sleeps  ───────────────────────▶  wheel thread  ──▶ batches (crossbeam, bounded)  ──▶  workers
//! ```
//!
//! A wish for a later instant crosses no thread at all: the wheel finds it when the entry fires. Only a wish for an
//! earlier one sends the name, and only one earlier than the wheel's planned wake-up wakes it.

mod arming;
mod hyper_timer;
mod name;
mod parking;
mod scheme;
mod sleep;
mod sleepers;
mod wheel;
mod workers;

/// What `arming.rs` and `parking.rs` are built on; the loom test builds them on loom's instead.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
}

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::thread::Thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};
use encke_core::Timestamp;

use crate::clock::{Clock, nanos};
use sleepers::Sleepers;

pub(crate) use arming::{Told, Wish};
pub(crate) use hyper_timer::WheelTimer;
pub(crate) use name::{TimerCell, TimerName};
pub use scheme::Scheme;
pub(crate) use sleep::Sleep;
pub(crate) use sleepers::SleeperId;
pub(crate) use wheel::{WheelSettings, WheelThread};
pub(crate) use workers::{ActOnExpiry, Batch, DISPATCH_BATCHES, WorkerPool};

/// The side of the timeouts that everyone but the wheel thread sees.
#[derive(Debug)]
pub(crate) struct Timeouts {
    clock: Arc<Clock>,
    slack: u64,
    names: Sender<Arc<TimerCell>>,
    parking: parking::Parking,
    wheel_thread: OnceLock<Thread>,
    sleepers: Sleepers,
    /// What the wheel thread tells of itself.
    pub(crate) stats: WheelStats,
}

/// Written by the wheel thread after every turn, read by metrics and the admin API.
#[derive(Debug, Default)]
pub(crate) struct WheelStats {
    /// Timers in the wheel.
    entries: AtomicUsize,
    /// What each level holds, which may be timers that were cancelled, too; from when there is a wheel.
    occupancy: OnceLock<Box<[AtomicUsize]>>,
    /// Turns that came later than planned by more than the threshold.
    pub(crate) stalls: AtomicU64,
    /// Nanoseconds taken out of the server's time by stalls.
    pub(crate) stolen_nanos: AtomicU64,
    /// [`Clock::uptime`] of the last turn, in nanoseconds.
    pub(crate) last_turn_nanos: AtomicU64,
}

impl WheelStats {
    fn has_levels(&self, levels: usize) {
        self.occupancy.get_or_init(|| (0..levels).map(|_| AtomicUsize::new(0)).collect());
    }

    /// Timers on each of the scheme's levels, the finest first. It may count some that were cancelled.
    pub(crate) fn occupancy(&self) -> &[AtomicUsize] {
        self.occupancy.get().map_or(&[], |levels| levels)
    }
}

impl Timeouts {
    /// Makes both ends: this side, and the names that the wheel thread receives.
    #[must_use]
    pub(crate) fn new(clock: Arc<Clock>, ping_slack: Duration) -> (Arc<Self>, Receiver<Arc<TimerCell>>) {
        let (names, received) = crossbeam_channel::unbounded();
        let timeouts = Self {
            clock,
            slack: nanos(ping_slack),
            names,
            parking: parking::Parking::new(),
            wheel_thread: OnceLock::new(),
            sleepers: Sleepers::default(),
            stats: WheelStats::default(),
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

    /// Notes what `cell` wants. What follows from it is for [`Timeouts::tell_wheel`], after every lock is released.
    pub(crate) fn want(&self, cell: &TimerCell, wish: Wish) -> Told {
        cell.arming.want(wish, self.slack)
    }

    /// Sends a name to the wheel if it must, and wakes the wheel if it would sleep too long.
    pub(crate) fn tell_wheel(&self, cell: &Arc<TimerCell>, told: Told) {
        match told {
            Told::Enough => return,
            // It fails only when the wheel thread is gone, at the very end of the server's life.
            Told::Send => _ = self.names.send(Arc::clone(cell)),
            Told::Wake => {}
        }
        // The newest wish, not the one this began with: another owner of the name may have wished for something
        // earlier and left the sending to us.
        if let Some(latest) = cell.arming.newest_wish().latest(self.slack)
            && self.parking.sleeps_beyond(latest)
        {
            self.unpark_wheel();
        }
    }

    /// Notes what `cell` wants and tells the wheel if need be. For owners that hold no lock.
    pub(crate) fn arm(&self, cell: &Arc<TimerCell>, wish: Wish) {
        let told = self.want(cell, wish);
        self.tell_wheel(cell, told);
    }

    /// The task that sleeps under this number and is to be woken.
    pub(crate) fn take_sleeper(&self, id: SleeperId) -> Option<Waker> {
        self.sleepers.take_waker(id)
    }

    /// How long ago the wheel last turned, by the machine's clock.
    #[must_use]
    pub(crate) fn since_last_turn(&self) -> Duration {
        let last = Duration::from_nanos(self.stats.last_turn_nanos.load(Ordering::Relaxed));
        self.clock.uptime().saturating_sub(last)
    }

    /// Timers in the wheel.
    #[must_use]
    pub(crate) fn entries(&self) -> usize {
        self.stats.entries.load(Ordering::Relaxed)
    }

    fn unpark_wheel(&self) {
        if let Some(thread) = self.wheel_thread.get() {
            thread.unpark();
        }
    }
}

/// Nanoseconds and ticks. Deadlines round up: never early.
#[derive(Clone, Copy, Debug)]
struct TickLength(u64);

impl TickLength {
    fn of(tick: Duration) -> Self {
        Self(nanos(tick).max(1))
    }

    fn first_at_or_after(self, nanos: u64) -> encke_wheel::Tick {
        encke_wheel::Tick(nanos.div_ceil(self.0))
    }

    fn last_at_or_before(self, now: Timestamp) -> encke_wheel::Tick {
        encke_wheel::Tick(now.as_nanos() / self.0)
    }

    fn nanos(self, tick: encke_wheel::Tick) -> u64 {
        tick.0.saturating_mul(self.0)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod turn_tests;
