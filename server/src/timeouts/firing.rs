//! What becomes of timers that fire.
//!
//! They are looked at many at a time. Each is a line of memory that hardly ever is in a cache, and a fence waits for all of them: so the
//! requests of all are read first, then it is said of all what becomes of them, and after one fence all requests are read again.

use arrayvec::ArrayVec;
use encke_core::Timestamp;
use encke_wheel::{Expire, StandingTimers, Tick, TimerKey, Work};

use super::arming::{Next, look_again};
use super::wheel_loop::{Entry, WheelLoop};
use super::workers::BATCH;
use super::{RequestedDeadline, Timer, TimerOwner};

/// A timer that has fired, its owner's request as it was then, and what it was said to become.
type Fired = (TimerKey, RequestedDeadline, Next);

/// Why no more timers fired.
pub(super) enum Until {
    /// As many have as the next message to the workers has room for.
    Full,
    OutOfWork,
    UpToDate,
}

impl<W: StandingTimers<Entry>> WheelLoop<W> {
    /// Drives the wheel, until as many timers have fired as the next message has room for. Those that are due are in it then, all others
    /// are armed again or let go.
    pub(super) fn fire(&mut self, to: Tick, now: Timestamp, work: &mut Work) -> Until {
        let mut keys = ArrayVec::<TimerKey, BATCH>::new();
        let until = loop {
            if keys.len() == self.pending.room() {
                break Until::Full;
            }
            match self.wheel.expire_next(to, work) {
                Expire::Due(expired) => keys.push(expired.key),
                Expire::OutOfWork => break Until::OutOfWork,
                Expire::UpToDate => break Until::UpToDate,
            }
        };
        let requests: ArrayVec<RequestedDeadline, BATCH> =
            keys.iter().map(|key| self.arming(*key).requested()).collect();
        let mut fired = ArrayVec::<Fired, BATCH>::new();
        for (key, requested) in keys.into_iter().zip(requests) {
            let next = self.next(key, requested, now);
            self.arming(key).becomes(next);
            fired.push((key, requested, next));
        }
        look_again();
        for fired in fired {
            self.fired(fired, now);
        }
        until
    }

    /// What becomes of a timer that fires for this request. If it is to be armed, it is.
    fn next(&mut self, key: TimerKey, requested: RequestedDeadline, now: Timestamp) -> Next {
        if !requested.is_due(now.as_nanos()) {
            let (earliest, latest) = (requested.earliest(), requested.latest(self.slack()));
            let Some((earliest, latest)) = earliest.zip(latest) else { return Next::Gone };
            return Next::Armed(self.arm_between(key, earliest, latest));
        }
        match self.timer(key) {
            // At once for when its session mostly wants it next: that request then crosses no thread.
            Timer::OfSlot(_) => {
                let at = (now + self.armed_again_after).as_nanos();
                Next::Armed(self.arm_between(key, at, at))
            }
            // Its owner is over, and need not say so.
            Timer::Own(timer) if timer.owner == TimerOwner::Sleep => Next::Gone,
            Timer::Own(_) => Next::AtRest,
        }
    }

    /// It was said what becomes of a timer that has fired for this request.
    fn fired(&mut self, (key, requested, next): Fired, now: Timestamp) {
        let arming = self.arming(key);
        let is_due = requested.is_due(now.as_nanos());
        if arming.requested() != requested {
            // Just now. The owner may have relied on what was said before.
            let requested = arming.rest();
            self.wheel.disarm(key);
            self.arm(key, requested);
        } else if next == Next::Gone {
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
