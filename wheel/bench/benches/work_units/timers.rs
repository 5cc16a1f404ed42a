//! The two timer interfaces that endpoints use: one-shot timers, which are scheduled each time, and reusable
//! timers.

use std::ops::RangeInclusive;

use encke_wheel::{Expiry, ReusableTimers, Tick, TimerKey, TimerQueue, WorkBudget};

/// Timers that carry a name. An endpoint stores the key of each of its timers. The key is `None` while a
/// one-shot timer is not running or a reusable timer is not registered.
pub(crate) trait EndpointTimers {
    fn now(&self) -> Tick;
    fn is_empty(&self) -> bool;
    fn precision(&self, ahead: u64) -> u64;
    fn next_wakeup(&self, at_most: Tick) -> Option<Tick>;
    /// Registers a timer if timers are reusable. Called before the timer is first set.
    fn begin(&mut self, key: &mut Option<TimerKey>, name: u32);
    fn set(&mut self, key: &mut Option<TimerKey>, name: u32, deadline: Tick);
    fn set_within(&mut self, key: &mut Option<TimerKey>, name: u32, range: RangeInclusive<Tick>);
    fn stop(&mut self, key: &mut Option<TimerKey>);
    fn end(&mut self, key: &mut Option<TimerKey>);
    fn next(&mut self, to: Tick, work: &mut WorkBudget) -> Option<(u32, Tick)>;
    /// Clears the key of an expired timer if timers are one-shot.
    fn expired(key: &mut Option<TimerKey>);
}

const WITHIN_HORIZON: &str = "within the horizon";
const REGISTERED: &str = "registered";
const KEY_IS_VALID: &str = "the key is valid";

#[derive(Debug)]
pub(crate) struct OneShot<Q>(pub(crate) Q);

impl<Q: TimerQueue<u32>> EndpointTimers for OneShot<Q> {
    fn now(&self) -> Tick {
        self.0.now()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn precision(&self, ahead: u64) -> u64 {
        self.0.precision(ahead)
    }

    fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        self.0.next_wakeup(at_most)
    }

    fn begin(&mut self, _: &mut Option<TimerKey>, _: u32) {}

    #[inline]
    fn set(&mut self, key: &mut Option<TimerKey>, name: u32, deadline: Tick) {
        match key {
            Some(key) => assert!(self.0.reschedule(*key, deadline) == Ok(true), "{KEY_IS_VALID}"),
            None => *key = Some(self.0.schedule(deadline, name).expect(WITHIN_HORIZON)),
        }
    }

    #[inline]
    fn set_within(&mut self, key: &mut Option<TimerKey>, name: u32, range: RangeInclusive<Tick>) {
        match key {
            Some(key) => assert!(self.0.reschedule_within(*key, range) == Ok(true), "{KEY_IS_VALID}"),
            None => *key = Some(self.0.schedule_within(range, name).expect(WITHIN_HORIZON)),
        }
    }

    fn stop(&mut self, key: &mut Option<TimerKey>) {
        key.take().map(|key| self.0.cancel(key));
    }

    fn end(&mut self, key: &mut Option<TimerKey>) {
        self.stop(key);
    }

    #[inline]
    fn next(&mut self, to: Tick, work: &mut WorkBudget) -> Option<(u32, Tick)> {
        match self.0.expire_next(to, work) {
            Expiry::Due(expired) => Some((expired.value, expired.deadline)),
            _ => None,
        }
    }

    #[inline]
    fn expired(key: &mut Option<TimerKey>) {
        *key = None;
    }
}

#[derive(Debug)]
pub(crate) struct Registered<S>(pub(crate) S);

impl<S: ReusableTimers<u32>> EndpointTimers for Registered<S> {
    fn now(&self) -> Tick {
        self.0.now()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn precision(&self, ahead: u64) -> u64 {
        self.0.precision(ahead)
    }

    fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        self.0.next_wakeup(at_most)
    }

    fn begin(&mut self, key: &mut Option<TimerKey>, name: u32) {
        *key = Some(self.0.register(name));
    }

    #[inline(always)]
    fn set(&mut self, key: &mut Option<TimerKey>, _: u32, deadline: Tick) {
        let key = key.expect(REGISTERED);
        assert!(self.0.arm(key, deadline) == Ok(true), "{KEY_IS_VALID}");
    }

    #[inline(always)]
    fn set_within(&mut self, key: &mut Option<TimerKey>, _: u32, range: RangeInclusive<Tick>) {
        let key = key.expect(REGISTERED);
        assert!(self.0.arm_within(key, range) == Ok(true), "{KEY_IS_VALID}");
    }

    fn stop(&mut self, key: &mut Option<TimerKey>) {
        key.map(|key| self.0.disarm(key));
    }

    fn end(&mut self, key: &mut Option<TimerKey>) {
        key.take().map(|key| self.0.unregister(key));
    }

    #[inline(always)]
    fn next(&mut self, to: Tick, work: &mut WorkBudget) -> Option<(u32, Tick)> {
        match self.0.expire_next(to, work) {
            Expiry::Due(expired) => Some((*expired.value, expired.deadline)),
            _ => None,
        }
    }

    #[inline(always)]
    fn expired(_: &mut Option<TimerKey>) {}
}
