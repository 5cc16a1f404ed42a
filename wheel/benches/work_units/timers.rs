//! The two interfaces by which endpoints have timers: one-shot timers, which are scheduled anew each time, and standing ones.

use std::ops::RangeInclusive;

use encke_wheel::{Expire, StandingTimers, Tick, TimerKey, TimerQueue, Work};

/// Timers that carry their names. An endpoint keeps the key of each; there is none while one-shot timers do not run, or standing ones are
/// not registered.
pub(crate) trait Timers {
    fn now(&self) -> Tick;
    fn is_empty(&self) -> bool;
    fn precision(&self, ahead: u64) -> u64;
    fn next_wakeup(&self, at_most: Tick) -> Option<Tick>;
    /// A timer is needed from now on.
    fn begin(&mut self, key: &mut Option<TimerKey>, name: u32);
    fn set(&mut self, key: &mut Option<TimerKey>, name: u32, deadline: Tick);
    fn set_within(&mut self, key: &mut Option<TimerKey>, name: u32, range: RangeInclusive<Tick>);
    /// It must not fire.
    fn stop(&mut self, key: &mut Option<TimerKey>);
    /// It is not needed any more.
    fn end(&mut self, key: &mut Option<TimerKey>);
    /// The next that fires: its name, and its deadline.
    fn next(&mut self, to: Tick, work: &mut Work) -> Option<(u32, Tick)>;
    /// This timer has fired.
    fn has_fired(key: &mut Option<TimerKey>);
}

const REACHES: &str = "the scheme reaches so far";
const BEGUN: &str = "it is registered";
const KNOWN: &str = "the key is forgotten when the timer is";

#[derive(Debug)]
pub(crate) struct OneShot<Q>(pub(crate) Q);

impl<Q: TimerQueue<u32>> Timers for OneShot<Q> {
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
            Some(key) => assert!(self.0.reschedule(*key, deadline) == Ok(true), "{KNOWN}"),
            None => *key = Some(self.0.schedule(deadline, name).expect(REACHES)),
        }
    }

    #[inline]
    fn set_within(&mut self, key: &mut Option<TimerKey>, name: u32, range: RangeInclusive<Tick>) {
        match key {
            Some(key) => assert!(self.0.reschedule_within(*key, range) == Ok(true), "{KNOWN}"),
            None => *key = Some(self.0.schedule_within(range, name).expect(REACHES)),
        }
    }

    fn stop(&mut self, key: &mut Option<TimerKey>) {
        key.take().map(|key| self.0.cancel(key));
    }

    fn end(&mut self, key: &mut Option<TimerKey>) {
        self.stop(key);
    }

    #[inline]
    fn next(&mut self, to: Tick, work: &mut Work) -> Option<(u32, Tick)> {
        match self.0.expire_next(to, work) {
            Expire::Due(expired) => Some((expired.value, expired.deadline)),
            _ => None,
        }
    }

    #[inline]
    fn has_fired(key: &mut Option<TimerKey>) {
        *key = None;
    }
}

#[derive(Debug)]
pub(crate) struct Standing<S>(pub(crate) S);

impl<S: StandingTimers<u32>> Timers for Standing<S> {
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
        let key = key.expect(BEGUN);
        assert!(self.0.arm(key, deadline) == Ok(true), "{KNOWN}");
    }

    #[inline(always)]
    fn set_within(&mut self, key: &mut Option<TimerKey>, _: u32, range: RangeInclusive<Tick>) {
        let key = key.expect(BEGUN);
        assert!(self.0.arm_within(key, range) == Ok(true), "{KNOWN}");
    }

    fn stop(&mut self, key: &mut Option<TimerKey>) {
        key.map(|key| self.0.disarm(key));
    }

    fn end(&mut self, key: &mut Option<TimerKey>) {
        key.take().map(|key| self.0.unregister(key));
    }

    #[inline(always)]
    fn next(&mut self, to: Tick, work: &mut Work) -> Option<(u32, Tick)> {
        match self.0.expire_next(to, work) {
            Expire::Due(expired) => Some((*expired.value, expired.deadline)),
            _ => None,
        }
    }

    #[inline(always)]
    fn has_fired(_: &mut Option<TimerKey>) {}
}
