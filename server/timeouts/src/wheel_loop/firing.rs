//! Decides the next state of timers that fire.
//!
//! Timers are processed in batches. Each timer occupies a cache line that is rarely cached, and a fence waits
//! for all outstanding accesses. Therefore, all requests are read first, then the next states of all timers
//! are announced, and after a single fence all requests are read again.

use arrayvec::ArrayVec;
use encke_core::Timestamp;
use encke_wheel::{Expiry, ReusableTimers, Tick, TimerKey, WorkBudget};

use super::{StopReason, WheelEntry, WheelLoop};
use crate::arming::{NextState, RequestedDeadline, recheck_fence};
use crate::timer::Timer;
use crate::timer_owner::TimerOwner;
use crate::workers::BATCH_SIZE;

/// A timer that has fired, its owner's request at that time, and the next state that was announced.
type Fired = (TimerKey, RequestedDeadline, NextState);

impl<W: ReusableTimers<WheelEntry>> WheelLoop<W> {
    /// Advances the wheel until the next batch is full. Due timers are added to the batch; all others are
    /// armed again or removed.
    pub(super) fn fire(&mut self, to: Tick, now: Timestamp, work: &mut WorkBudget) -> StopReason {
        let mut keys = ArrayVec::<TimerKey, BATCH_SIZE>::new();
        let until = loop {
            if keys.len() == self.pending.room() {
                break StopReason::Full;
            }
            match self.wheel.expire_next(to, work) {
                Expiry::Due(expired) => keys.push(expired.key),
                Expiry::OutOfBudget => break StopReason::OutOfWork,
                Expiry::UpToDate => break StopReason::UpToDate,
            }
        };
        let requests: ArrayVec<RequestedDeadline, BATCH_SIZE> =
            keys.iter().map(|key| self.arming(*key).requested()).collect();
        let mut fired = ArrayVec::<Fired, BATCH_SIZE>::new();
        for (key, requested) in keys.into_iter().zip(requests) {
            let next = self.announced_state(key, requested, now);
            self.arming(key).announce(next);
            fired.push((key, requested, next));
        }
        recheck_fence();
        for fired in fired {
            self.finish_firing(fired, now);
        }
        until
    }

    /// Returns the next state of a timer that fires with this request. Arms the timer if that state is armed.
    fn announced_state(&mut self, key: TimerKey, requested: RequestedDeadline, now: Timestamp) -> NextState {
        if !requested.is_due(now.as_nanos()) {
            let Some(range) = requested.range(self.slack()) else { return NextState::Removed };
            return NextState::Armed(self.arm_between(key, range));
        }
        match self.timer(key) {
            // Arm the timer immediately for the time at which its session usually wants the next expiry. That
            // request then involves no other thread.
            Timer::Slot(_) => {
                let at = (now + self.rearm_delay).as_nanos();
                NextState::Armed(self.arm_between(key, at..=at))
            }
            // A sleep ends with its expiry and requests no other deadline.
            Timer::Standalone(timer) if timer.owner == TimerOwner::Sleep => NextState::Removed,
            Timer::Standalone(_) => NextState::Disarmed,
        }
    }

    /// Completes the firing of a timer after its next state was announced.
    fn finish_firing(&mut self, (key, requested, next): Fired, now: Timestamp) {
        let arming = self.arming(key);
        let is_due = requested.is_due(now.as_nanos());
        if arming.requested() != requested {
            // The request has just changed, and the owner may have relied on the previous announcement.
            let requested = arming.disarm();
            self.wheel.disarm(key);
            self.arm(key, requested);
        } else if next == NextState::Removed {
            let timer = self.unregister(key);
            if is_due {
                self.pending.push(timer, now);
            }
        } else if is_due {
            let timer = self.timer(key).to_timer();
            self.pending.push(timer, now);
        }
    }
}
