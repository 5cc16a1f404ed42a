use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError};
use encke_core::Timestamp;
use encke_wheel::{Expire, Tick, TimerKey, TimerQueue, Work};

use crate::clock::nanos;

use super::wheel_thread::WheelParts;
use super::{Batch, RequestedDeadline, TickLength, Timeouts, TimerCell};

/// Expiries and cascades between two looks into the channel: when many timers expire on one tick, those cancelled
/// meanwhile still leave the wheel.
const WORK_PER_LOOK: u64 = 4096;

/// What the wheel thread owns and does. It only routes: it runs no session code and takes no session's lock.
///
/// One turn is [`WheelLoop::turn`], then [`WheelLoop::fall_asleep`], a sleep if that allows it, and
/// [`WheelLoop::awake`]. The thread sleeps by parking; a simulation decides for itself how long.
pub(super) struct WheelLoop<Q> {
    pub(super) wheel: Q,
    tick: TickLength,
    longest_sleep: Duration,
    timeouts: Arc<Timeouts>,
    to_arm: Receiver<Arc<TimerCell>>,
    batches: Sender<Batch>,
    /// Expired, not yet sent: at most one batch, for the wheel is not advanced while it is full.
    pending: Batch,
}

/// Whether everything that had expired went out to the workers.
#[derive(PartialEq)]
pub(super) enum Dispatch {
    Done,
    ChannelFull,
}

impl<Q: TimerQueue<Arc<TimerCell>>> WheelLoop<Q> {
    pub(super) fn new(parts: WheelParts, wheel: Q) -> Self {
        parts.timeouts.stats.has_levels(wheel.levels());
        Self {
            wheel,
            tick: TickLength::of(parts.settings.tick),
            longest_sleep: parts.settings.longest_sleep(),
            timeouts: parts.timeouts,
            to_arm: parts.to_arm,
            batches: parts.batches,
            pending: Batch::default(),
        }
    }

    /// Arms what was sent, and sends what has expired. Returns when there is something to do next, as far as the
    /// wheel knows.
    pub(super) fn turn(&mut self) -> Timestamp {
        let now = self.begin_turn();
        self.receive();
        let dispatch = self.advance(now);
        self.publish_occupancy();
        let wake_up = self.wake_up(now, &dispatch);
        self.timeouts.clock().plan(wake_up);
        wake_up
    }

    /// Announces the sleep, then looks into the channel once more. Returns whether the loop may sleep: not if it
    /// received a timer, for which it might have to wake up earlier.
    pub(super) fn fall_asleep(&mut self, wake_up: Timestamp) -> bool {
        self.timeouts.parking.announce(wake_up.as_nanos());
        !self.receive()
    }

    /// What is left of the sleep until `wake_up`.
    pub(super) fn remaining(&self, wake_up: Timestamp) -> Duration {
        wake_up.since(self.timeouts.clock().now())
    }

    /// Ends a sleep, and what [`WheelLoop::fall_asleep`] announced.
    pub(super) fn awake(&self) {
        self.timeouts.parking.awake();
    }

    fn begin_turn(&self) -> Timestamp {
        let clock = self.timeouts.clock();
        let turn = clock.turn();
        let stats = &self.timeouts.stats;
        stats.last_turn_nanos.store(nanos(clock.uptime()), Ordering::Relaxed);
        if !turn.stalled.is_zero() {
            stats.stalls.fetch_add(1, Ordering::Relaxed);
            stats.stolen_nanos.fetch_add(nanos(turn.stalled), Ordering::Relaxed);
            tracing::warn!(stalled = ?turn.stalled, "the server was not served; its clock stood still meanwhile");
        }
        turn.now
    }

    /// Takes every timer that was sent. Returns whether there was any.
    pub(super) fn receive(&mut self) -> bool {
        let mut any = false;
        // Bounded, so that a flood of timers does not keep the wheel from turning.
        for _ in 0..self.to_arm.len() {
            let Ok(timer) = self.to_arm.try_recv() else { break };
            self.update(timer);
            any = true;
        }
        any
    }

    fn update(&mut self, timer: Arc<TimerCell>) {
        let requested = timer.arming.received();
        match (timer.arming.armed(), requested.latest(self.timeouts.slack)) {
            (None, None) => {}
            (None, Some(_)) => self.schedule(timer, requested),
            (Some(armed), Some(latest)) if armed <= latest => {}
            // Earlier than armed, or not at all: forget the entry, then look again.
            (Some(_), _) => {
                let key = timer.entry.lock().take();
                if let Some(key) = key {
                    self.wheel.cancel(key);
                }
                let requested = timer.arming.forget();
                self.schedule(timer, requested);
            }
        }
    }

    fn schedule(&mut self, timer: Arc<TimerCell>, mut requested: RequestedDeadline) {
        while let (Some(earliest), Some(latest)) =
            (requested.earliest(), requested.latest(self.timeouts.slack))
        {
            let first = self.tick.first_at_or_after(earliest);
            let last = self.tick.last_at_or_before(Timestamp::from_nanos(latest)).max(first);
            let (key, at) = self.enter(first..=last, Arc::clone(&timer));
            let late = self.wheel.precision(at.saturating_since(self.wheel.now()));
            let served = match late {
                // An exact deadline within a tick is served at the end of it, also when it is requested again.
                0 => self.tick.nanos(at).min(latest),
                // It may come out so late. A request for an earlier instant may get an entry that does not.
                _ => self.tick.nanos(at.saturating_add(late)),
            };
            if timer.arming.set_armed(served) != RequestedDeadline::NONE {
                *timer.entry.lock() = Some(key);
                return;
            }
            self.wheel.cancel(key);
            requested = timer.arming.forget();
        }
    }

    /// Puts a timer into the wheel for a tick in `range`: the entry, and the tick. A tick beyond the scheme's horizon
    /// becomes the last one within it: there the entry fires early, finds the later request, and is armed again.
    fn enter(&mut self, range: RangeInclusive<Tick>, timer: Arc<TimerCell>) -> (TimerKey, Tick) {
        let key = match self.wheel.schedule_within(range, timer) {
            Ok(key) => key,
            Err(beyond) => {
                let at_horizon = self.wheel.schedule(beyond.last, beyond.value);
                at_horizon.expect("the scheme reaches as far as it says")
            }
        };
        (key, self.wheel.deadline(key).expect("it was put in just now"))
    }

    /// Drives the wheel to `now` and sends what expires, 64 a message.
    pub(super) fn advance(&mut self, now: Timestamp) -> Dispatch {
        let to = self.tick.last_at_or_before(now);
        let mut work = Work::new(WORK_PER_LOOK);
        loop {
            if self.pending.is_full() && self.send_pending() == Dispatch::ChannelFull {
                return Dispatch::ChannelFull;
            }
            match self.wheel.expire_next(to, &mut work) {
                Expire::Due(expired) => self.expired(expired.value, now),
                Expire::OutOfWork => {
                    self.receive();
                    work = Work::new(WORK_PER_LOOK);
                }
                Expire::UpToDate => break,
            }
        }
        if self.pending.is_empty() { Dispatch::Done } else { self.send_pending() }
    }

    fn expired(&mut self, timer: Arc<TimerCell>, now: Timestamp) {
        *timer.entry.lock() = None;
        let requested = timer.arming.forget();
        match requested.earliest() {
            None => {}
            Some(due) if due <= now.as_nanos() => self.pending.push(timer, now),
            Some(_) => self.schedule(timer, requested),
        }
    }

    /// When the channel is full, everything stays and goes out at a later tick: late, but not lost.
    fn send_pending(&mut self) -> Dispatch {
        let watch = &self.timeouts.dispatch;
        watch.sending(self.pending.expired_at);
        match self.batches.try_send(std::mem::take(&mut self.pending)) {
            Ok(()) => {
                watch.sent();
                Dispatch::Done
            }
            Err(TrySendError::Full(batch)) => {
                self.pending = batch;
                Dispatch::ChannelFull
            }
            // The workers end after this thread, unless all of them have died.
            Err(TrySendError::Disconnected(_)) => Dispatch::Done,
        }
    }

    pub(super) fn publish_occupancy(&self) {
        self.timeouts.stats.entries.store(self.wheel.len(), Ordering::Relaxed);
        for (level, shown) in self.timeouts.stats.occupancy().iter().enumerate() {
            shown.store(self.wheel.occupancy(level), Ordering::Relaxed);
        }
    }

    /// When there is something to do next, as far as the wheel knows.
    pub(super) fn wake_up(&self, now: Timestamp, dispatch: &Dispatch) -> Timestamp {
        let at_most = now + self.longest_sleep;
        let next_tick = Tick(self.tick.last_at_or_before(now).0.saturating_add(1));
        let tick = match dispatch {
            Dispatch::ChannelFull => Some(next_tick),
            Dispatch::Done => self.wheel.next_wakeup(self.tick.first_at_or_after(at_most.as_nanos())),
        };
        tick.map_or(at_most, |tick| Timestamp::from_nanos(self.tick.nanos(tick.max(next_tick))).min(at_most))
    }
}

impl Batch {
    fn push(&mut self, timer: Arc<TimerCell>, now: Timestamp) {
        if self.timers.is_empty() {
            self.expired_at = Some(now);
        }
        self.timers.push(timer);
    }

    fn is_full(&self) -> bool {
        self.timers.is_full()
    }

    fn is_empty(&self) -> bool {
        self.timers.is_empty()
    }
}
