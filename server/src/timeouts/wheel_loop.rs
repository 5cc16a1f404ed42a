use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError};
use encke_core::Timestamp;
use encke_wheel::{StandingTimers, Tick, TimerKey, Work};

use crate::clock::nanos;

use super::arming::Arming;
use super::firing::Until;
use super::own_timers::OwnTimers;
use super::wheel_thread::WheelParts;
use super::{Batch, RequestedDeadline, TickLength, Timeouts, Timer, TimerRef};

/// Expiries and cascades between two looks into the channel: when many timers expire on one tick, those that are withdrawn
/// meanwhile still leave the wheel.
const WORK_PER_LOOK: u64 = 4096;

pub(super) const REGISTERED: &str = "nothing but this thread takes a timer out";

/// What the wheel has of a timer: its slot, or its number among the [others](OwnTimers).
pub(super) type Entry = Timer<u32>;

/// What the wheel thread owns and does. It only routes: it runs no session code and takes no session's lock.
///
/// One turn is [`WheelLoop::turn`], then [`WheelLoop::fall_asleep`], a sleep if that allows it, and
/// [`WheelLoop::awake`]. The thread sleeps by parking; a simulation decides for itself how long.
pub(super) struct WheelLoop<W> {
    /// Every timer that has a deadline, armed or on its way through the workers.
    pub(super) wheel: W,
    own: OwnTimers,
    tick: TickLength,
    longest_sleep: Duration,
    pub(super) armed_again_after: Duration,
    /// When the levels are counted next: every slot is looked at for it, which is more than a turn takes that has little to do.
    levels_counted_next: Timestamp,
    timeouts: Arc<Timeouts>,
    to_arm: Receiver<Timer>,
    batches: Sender<Batch>,
    /// Expired, not yet sent: at most one batch, for the wheel is not advanced while it is full.
    pub(super) pending: Batch,
}

/// Whether everything that had expired went out to the workers.
#[derive(PartialEq)]
pub(super) enum Dispatch {
    Done,
    ChannelFull,
}

impl<W: StandingTimers<Entry>> WheelLoop<W> {
    pub(super) fn new(parts: WheelParts, wheel: W) -> Self {
        parts.timeouts.stats.has_levels(wheel.levels());
        parts.timeouts.stats.rings.has_rings(&wheel);
        Self {
            wheel,
            own: OwnTimers::default(),
            tick: TickLength::of(parts.settings.tick),
            longest_sleep: parts.settings.longest_sleep(),
            armed_again_after: parts.settings.armed_again_after,
            levels_counted_next: Timestamp::from_nanos(0),
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
        self.publish_entries();
        if now >= self.levels_counted_next {
            self.levels_counted_next = now + self.longest_sleep;
            self.publish_levels();
        }
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

    /// How long after its deadline a soft expiry may come.
    pub(super) fn slack(&self) -> u64 {
        self.timeouts.slack
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

    fn update(&mut self, timer: Timer) {
        let arming = self.timeouts.arming((&timer).into());
        let requested = arming.received();
        let key = NonZeroU64::new(arming.noted()).map(TimerKey::of_number);
        match (key, requested.latest(self.timeouts.slack)) {
            (None, None) => {}
            (None, Some(_)) => {
                let key = self.register(timer);
                self.arm(key, requested);
            }
            (Some(_), Some(latest)) if arming.armed().is_some_and(|armed| armed <= latest) => {}
            // Earlier than armed, or at rest, or no longer: say that it rests, then look again. A scheme that comes the later, the
            // further ahead a timer was armed, must not leave it where it is.
            (Some(key), _) => {
                self.wheel.disarm(key);
                let requested = arming.rest();
                self.arm(key, requested);
            }
        }
    }

    fn register(&mut self, timer: Timer) -> TimerKey {
        let entry = match &timer {
            Timer::OfSlot(slot) => Timer::OfSlot(*slot),
            Timer::Own(timer) => Timer::Own(self.own.insert(Arc::clone(timer))),
        };
        let key = self.wheel.register(entry);
        self.timeouts.arming((&timer).into()).note(key.number().get());
        key
    }

    pub(super) fn unregister(&mut self, key: TimerKey) -> Timer {
        let timer = match self.wheel.unregister(key).expect(REGISTERED) {
            Timer::OfSlot(slot) => Timer::OfSlot(slot),
            Timer::Own(number) => Timer::Own(self.own.remove(number)),
        };
        self.timeouts.arming((&timer).into()).note(0);
        timer
    }

    /// A timer that is registered.
    pub(super) fn timer(&self, key: TimerKey) -> TimerRef<'_> {
        match self.wheel.get(key).expect(REGISTERED) {
            Timer::OfSlot(slot) => Timer::OfSlot(*slot),
            Timer::Own(number) => Timer::Own(self.own.get(*number)),
        }
    }

    pub(super) fn arming(&self, key: TimerKey) -> &Arming {
        self.timeouts.arming(self.timer(key))
    }

    /// Arms a timer of the wheel as its owner requests, or lets it go if there is no request.
    pub(super) fn arm(&mut self, mut key: TimerKey, mut requested: RequestedDeadline) {
        loop {
            if let (Some(earliest), Some(latest)) =
                (requested.earliest(), requested.latest(self.timeouts.slack))
            {
                let serves = self.arm_between(key, earliest, latest);
                requested = self.arming(key).set_armed(serves);
                if requested != RequestedDeadline::NONE {
                    return;
                }
            } else {
                let timer = self.unregister(key);
                requested = self.timeouts.arming((&timer).into()).leave();
                if requested == RequestedDeadline::NONE {
                    return;
                }
                key = self.register(timer);
            }
        }
    }

    /// Returns the earliest instant of which a request is served by that.
    pub(super) fn arm_between(&mut self, key: TimerKey, earliest: u64, latest: u64) -> u64 {
        let first = self.tick.first_at_or_after(earliest);
        let last = self.tick.last_at_or_before(Timestamp::from_nanos(latest)).max(first);
        let at = self.enter(key, first..=last);
        match self.wheel.precision(at.saturating_since(self.wheel.now())) {
            // An exact deadline within a tick is served at the end of it, also when it is requested again.
            0 => self.tick.nanos(at).min(latest),
            // It may come out so late. A request for an earlier instant may be armed so that it does not.
            late => self.tick.nanos(at.saturating_add(late)),
        }
    }

    /// Arms a timer for a tick in `range`, which it returns. A tick beyond the scheme's horizon becomes the last one within it:
    /// there the timer fires early, finds the later request, and is armed again.
    fn enter(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> Tick {
        if let Err(beyond) = self.wheel.arm_within(key, range) {
            let at_horizon = self.wheel.arm(key, beyond.last);
            at_horizon.expect("the scheme reaches as far as it says");
        }
        self.wheel.deadline(key).expect("it was armed just now")
    }

    /// Drives the wheel to `now` and sends what expires, 64 a message.
    pub(super) fn advance(&mut self, now: Timestamp) -> Dispatch {
        let to = self.tick.last_at_or_before(now);
        let mut work = Work::new(WORK_PER_LOOK);
        loop {
            if self.pending.is_full() && self.send_pending() == Dispatch::ChannelFull {
                return Dispatch::ChannelFull;
            }
            match self.fire(to, now, &mut work) {
                Until::Full => {}
                Until::OutOfWork => {
                    self.receive();
                    work = Work::new(WORK_PER_LOOK);
                }
                Until::UpToDate => break,
            }
        }
        if self.pending.is_empty() { Dispatch::Done } else { self.send_pending() }
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

    pub(super) fn publish_entries(&self) {
        self.timeouts.stats.entries.store(self.wheel.len(), Ordering::Relaxed);
    }

    fn publish_levels(&self) {
        for (level, shown) in self.timeouts.stats.occupancy().iter().enumerate() {
            shown.store(self.wheel.occupancy(level), Ordering::Relaxed);
        }
        let rings = &self.timeouts.stats.rings;
        if rings.is_watched() {
            rings.write(&self.wheel);
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
