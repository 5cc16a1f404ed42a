mod firing;

use std::num::NonZeroU64;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError};
use encke_core::Timestamp;
use encke_wheel::{ReusableTimers, Tick, TimerKey, WorkBudget};

use crate::arming::{Arming, RequestedDeadline};
use crate::clock::nanos;
use crate::standalone_timers::StandaloneTimers;
use crate::tick_length::TickLength;
use crate::timeouts::Timeouts;
use crate::timer::{Timer, TimerRef};
use crate::wheel_settings::WheelSettings;
use crate::workers::ExpiryBatch;

/// Units of work (expiries and cascades) between reads of the channel. When many timers expire on one tick,
/// timers cancelled in the meantime can still be removed.
const WORK_PER_RECEIVE: u64 = 4096;

pub(crate) const REGISTERED: &str = "only this thread removes timers";

/// Wheel entry of a timer: its slot, or its number in [`StandaloneTimers`].
pub(crate) type WheelEntry = Timer<u32>;

/// Parts of the wheel loop other than the wheel.
pub(crate) struct WheelParts {
    pub(crate) settings: WheelSettings,
    pub(crate) timeouts: Arc<Timeouts>,
    pub(crate) to_arm: Receiver<Timer>,
    pub(crate) batches: Sender<ExpiryBatch>,
}

/// State and logic of the wheel thread. It only routes timers: it runs no session code and takes no session
/// lock.
///
/// An iteration consists of [`WheelLoop::turn`], [`WheelLoop::prepare_sleep`], a sleep if that allows it, and
/// [`WheelLoop::end_sleep`]. The thread sleeps by parking; a simulation decides how long the sleep takes.
pub(crate) struct WheelLoop<W> {
    /// All timers with a deadline, including those that the workers are handling.
    pub(crate) wheel: W,
    standalone: StandaloneTimers,
    tick: TickLength,
    longest_sleep: Duration,
    pub(crate) rearm_delay: Duration,
    /// When to next count the timers per level. Counting visits every slot, which costs more than a turn with
    /// little work.
    next_level_count: Timestamp,
    timeouts: Arc<Timeouts>,
    to_arm: Receiver<Timer>,
    batches: Sender<ExpiryBatch>,
    /// Expired timers that have not been sent yet: at most one batch, because the wheel does not advance
    /// while the batch is full.
    pub(crate) pending: ExpiryBatch,
}

/// Whether all expired timers were sent to the workers.
#[derive(PartialEq)]
pub(crate) enum DispatchOutcome {
    Done,
    ChannelFull,
}

/// Why no more timers are fired.
enum StopReason {
    /// The next batch for the workers is full.
    Full,
    OutOfWork,
    UpToDate,
}

impl<W: ReusableTimers<WheelEntry>> WheelLoop<W> {
    pub(crate) fn new(parts: WheelParts, wheel: W) -> Self {
        parts.timeouts.stats.set_levels(wheel.levels());
        parts.timeouts.stats.rings.set_rings(&wheel);
        Self {
            wheel,
            standalone: StandaloneTimers::default(),
            tick: TickLength::of(parts.settings.tick),
            longest_sleep: parts.settings.longest_sleep(),
            rearm_delay: parts.settings.rearm_delay,
            next_level_count: Timestamp::from_nanos(0),
            timeouts: parts.timeouts,
            to_arm: parts.to_arm,
            batches: parts.batches,
            pending: ExpiryBatch::default(),
        }
    }

    /// Arms the received timers and sends the expired timers to the workers. Returns when the loop
    /// must wake up next.
    pub(crate) fn turn(&mut self) -> Timestamp {
        let now = self.begin_turn();
        self.receive();
        let dispatch = self.advance(now);
        self.publish_entries();
        if now >= self.next_level_count {
            self.next_level_count = now + self.longest_sleep;
            self.publish_levels();
        }
        let wake_up = self.wake_up(now, &dispatch);
        self.timeouts.clock().plan_wake_up(wake_up);
        wake_up
    }

    /// Announces the sleep, then checks the channel once more. Returns whether the loop may sleep. It may not
    /// if it received a timer, because that timer may require an earlier wake-up.
    pub(crate) fn prepare_sleep(&mut self, wake_up: Timestamp) -> bool {
        self.timeouts.parking.announce(wake_up.as_nanos());
        !self.receive()
    }

    /// Maximum time by which a soft expiry may follow its deadline, in nanoseconds.
    pub(crate) fn slack(&self) -> u64 {
        self.timeouts.slack
    }

    /// Time left until `wake_up`.
    pub(crate) fn remaining(&self, wake_up: Timestamp) -> Duration {
        wake_up.since(self.timeouts.clock().now())
    }

    /// Ends the sleep announced by [`WheelLoop::prepare_sleep`].
    pub(crate) fn end_sleep(&self) {
        self.timeouts.parking.mark_awake();
    }

    fn begin_turn(&self) -> Timestamp {
        let clock = self.timeouts.clock();
        let turn = clock.turn();
        let stats = &self.timeouts.stats;
        stats.last_turn_nanos.store(nanos(clock.uptime()), Ordering::Relaxed);
        if !turn.stalled.is_zero() {
            stats.stalls.fetch_add(1, Ordering::Relaxed);
            stats.stolen_nanos.fetch_add(nanos(turn.stalled), Ordering::Relaxed);
            tracing::warn!(stalled = ?turn.stalled, "stall detected: server time stood still, so timeouts are extended");
        }
        turn.now
    }

    /// Takes all timers from the channel. Returns whether there were any.
    pub(crate) fn receive(&mut self) -> bool {
        let mut any = false;
        // Bound the loop, so that a flood of timers cannot keep the wheel from turning.
        for _ in 0..self.to_arm.len() {
            let Ok(timer) = self.to_arm.try_recv() else { break };
            self.update(timer);
            any = true;
        }
        any
    }

    fn update(&mut self, timer: Timer) {
        let arming = self.timeouts.arming((&timer).into());
        let requested = arming.mark_received();
        let key = NonZeroU64::new(arming.key_number()).map(TimerKey::from_bits);
        match (key, requested.latest(self.timeouts.slack)) {
            (None, None) => {}
            (None, Some(_)) => {
                let key = self.register(timer);
                self.arm(key, requested);
            }
            (Some(_), Some(latest)) if arming.armed().is_some_and(|armed| armed <= latest) => {}
            // The timer must fire earlier than armed, is disarmed, or no longer has a deadline. Announce that
            // it is disarmed, then read the request again. In schemes whose lateness grows with the distance
            // of the deadline, the timer must not stay in its present position.
            (Some(key), _) => {
                self.wheel.disarm(key);
                let requested = arming.disarm();
                self.arm(key, requested);
            }
        }
    }

    fn register(&mut self, timer: Timer) -> TimerKey {
        let entry = match &timer {
            Timer::Slot(slot) => Timer::Slot(*slot),
            Timer::Standalone(timer) => Timer::Standalone(self.standalone.insert(Arc::clone(timer))),
        };
        let key = self.wheel.register(entry);
        self.timeouts.arming((&timer).into()).set_key_number(key.to_bits().get());
        key
    }

    pub(crate) fn unregister(&mut self, key: TimerKey) -> Timer {
        let timer = match self.wheel.unregister(key).expect(REGISTERED) {
            Timer::Slot(slot) => Timer::Slot(slot),
            Timer::Standalone(number) => Timer::Standalone(self.standalone.remove(number)),
        };
        self.timeouts.arming((&timer).into()).set_key_number(0);
        timer
    }

    pub(crate) fn timer(&self, key: TimerKey) -> TimerRef<'_> {
        match self.wheel.get(key).expect(REGISTERED) {
            Timer::Slot(slot) => Timer::Slot(*slot),
            Timer::Standalone(number) => Timer::Standalone(self.standalone.get(*number)),
        }
    }

    pub(crate) fn arming(&self, key: TimerKey) -> &Arming {
        self.timeouts.arming(self.timer(key))
    }

    /// Arms a registered timer as its owner requests, or unregisters it if there is no request.
    pub(crate) fn arm(&mut self, mut key: TimerKey, mut requested: RequestedDeadline) {
        loop {
            if let Some(range) = requested.range(self.timeouts.slack) {
                let served_from = self.arm_between(key, range);
                requested = self.arming(key).set_armed(served_from);
                if requested != RequestedDeadline::NONE {
                    return;
                }
            } else {
                let timer = self.unregister(key);
                requested = self.timeouts.arming((&timer).into()).remove();
                if requested == RequestedDeadline::NONE {
                    return;
                }
                key = self.register(timer);
            }
        }
    }

    /// Arms a timer to fire between `earliest` and `latest`. Returns the earliest deadline that this serves.
    pub(crate) fn arm_between(&mut self, key: TimerKey, range: RangeInclusive<u64>) -> u64 {
        let (earliest, latest) = range.into_inner();
        let first = self.tick.first_at_or_after(earliest);
        let last = self.tick.last_at_or_before(Timestamp::from_nanos(latest)).max(first);
        let at = self.arm_in_range(key, first..=last);
        match self.wheel.precision(at.saturating_since(self.wheel.now())) {
            // An exact deadline within a tick is served at the end of that tick, even when the same deadline
            // is requested again.
            0 => self.tick.nanos(at).min(latest),
            // The timer may fire this late. A request for an earlier deadline can be armed more precisely.
            late => self.tick.nanos(at.saturating_add(late)),
        }
    }

    /// Arms a timer for a tick in `range` and returns that tick. If the range is beyond the scheme's horizon,
    /// arms the timer for the last tick within the horizon: it fires early, and is then armed again for the
    /// requested deadline.
    fn arm_in_range(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> Tick {
        if let Err(beyond) = self.wheel.arm_within(key, range) {
            let at_horizon = self.wheel.arm(key, beyond.last);
            at_horizon.expect("the last tick is within the horizon");
        }
        self.wheel.deadline(key).expect("just armed")
    }

    /// Advances the wheel to `now` and sends expired timers in batches of 64.
    pub(crate) fn advance(&mut self, now: Timestamp) -> DispatchOutcome {
        let to = self.tick.last_at_or_before(now);
        let mut work = WorkBudget::new(WORK_PER_RECEIVE);
        loop {
            if self.pending.is_full() && self.send_pending() == DispatchOutcome::ChannelFull {
                return DispatchOutcome::ChannelFull;
            }
            match self.fire(to, now, &mut work) {
                StopReason::Full => {}
                StopReason::OutOfWork => {
                    self.receive();
                    work = WorkBudget::new(WORK_PER_RECEIVE);
                }
                StopReason::UpToDate => break,
            }
        }
        if self.pending.is_empty() { DispatchOutcome::Done } else { self.send_pending() }
    }

    /// Sends the pending batch. If the channel is full, the batch is kept and sent on a later tick: late, but
    /// not lost.
    fn send_pending(&mut self) -> DispatchOutcome {
        let watch = &self.timeouts.dispatch;
        watch.sending(self.pending.expired_at);
        match self.batches.try_send(std::mem::take(&mut self.pending)) {
            Ok(()) => {
                watch.sent();
                DispatchOutcome::Done
            }
            Err(TrySendError::Full(batch)) => {
                self.pending = batch;
                DispatchOutcome::ChannelFull
            }
            // The workers outlive this thread unless all of them have died.
            Err(TrySendError::Disconnected(_)) => DispatchOutcome::Done,
        }
    }

    pub(crate) fn publish_entries(&self) {
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

    /// Returns when the loop must wake up next.
    pub(crate) fn wake_up(&self, now: Timestamp, dispatch: &DispatchOutcome) -> Timestamp {
        let at_most = now + self.longest_sleep;
        let next_tick = Tick(self.tick.last_at_or_before(now).0.saturating_add(1));
        let tick = match dispatch {
            DispatchOutcome::ChannelFull => Some(next_tick),
            DispatchOutcome::Done => self.wheel.next_wakeup(self.tick.first_at_or_after(at_most.as_nanos())),
        };
        tick.map_or(at_most, |tick| Timestamp::from_nanos(self.tick.nanos(tick.max(next_tick))).min(at_most))
    }
}
