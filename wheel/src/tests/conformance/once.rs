//! Timers that stay, as timers for once: the same tests for both interfaces.

use core::ops::RangeInclusive;

use super::{Checked, LEVELS};
use crate::schemes::Standing;
use crate::{BeyondHorizon, Expire, Expired, Owners, Ring, StandingTimers, Tick, TimerKey, TimerQueue, Work};

/// Each timer is registered and armed when it is scheduled, and unregistered when it expires.
pub(super) struct Once<S>(pub(super) S);

impl<S: StandingTimers<u64>> Once<S> {
    fn armed(
        &mut self,
        key: TimerKey,
        armed: Result<bool, BeyondHorizon<()>>,
    ) -> Result<TimerKey, BeyondHorizon<u64>> {
        match armed {
            Ok(is_there) => {
                assert!(is_there, "it was just registered");
                Ok(key)
            }
            Err(BeyondHorizon { last, .. }) => {
                assert_eq!(self.0.deadline(key), None);
                let value = self.0.unregister(key).expect("it was just registered");
                Err(BeyondHorizon { value, last })
            }
        }
    }
}

impl<S: StandingTimers<u64>> TimerQueue<u64> for Once<S> {
    fn now(&self) -> Tick {
        self.0.now()
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn horizon(&self) -> Option<u64> {
        self.0.horizon()
    }

    fn precision(&self, ahead: u64) -> u64 {
        self.0.precision(ahead)
    }

    fn schedule(&mut self, deadline: Tick, value: u64) -> Result<TimerKey, BeyondHorizon<u64>> {
        let key = self.0.register(value);
        let armed = self.0.arm(key, deadline);
        self.armed(key, armed)
    }

    fn schedule_within(
        &mut self,
        range: RangeInclusive<Tick>,
        value: u64,
    ) -> Result<TimerKey, BeyondHorizon<u64>> {
        let key = self.0.register(value);
        let armed = self.0.arm_within(key, range);
        self.armed(key, armed)
    }

    fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> Result<bool, BeyondHorizon<()>> {
        self.0.arm(key, deadline)
    }

    fn reschedule_within(
        &mut self,
        key: TimerKey,
        range: RangeInclusive<Tick>,
    ) -> Result<bool, BeyondHorizon<()>> {
        self.0.arm_within(key, range)
    }

    fn cancel(&mut self, key: TimerKey) -> Option<u64> {
        self.0.unregister(key)
    }

    fn deadline(&self, key: TimerKey) -> Option<Tick> {
        self.0.deadline(key)
    }

    fn get(&self, key: TimerKey) -> Option<&u64> {
        self.0.get(key)
    }

    fn expire_next(&mut self, now: Tick, work: &mut Work) -> Expire<u64> {
        match self.0.expire_next(now, work) {
            Expire::Due(Expired { key, deadline, value }) => {
                let value = *value;
                assert_eq!(self.0.deadline(key), None, "it is not armed any more");
                assert_eq!(self.0.unregister(key), Some(value), "it has stayed");
                Expire::Due(Expired { key, deadline, value })
            }
            Expire::OutOfWork => Expire::OutOfWork,
            Expire::UpToDate => Expire::UpToDate,
        }
    }

    fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        self.0.next_wakeup(at_most)
    }

    fn levels(&self) -> usize {
        self.0.levels()
    }

    fn occupancy(&self, level: usize) -> usize {
        self.0.occupancy(level)
    }

    fn ring(&self, ring: usize, held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        self.0.ring(ring, held)
    }
}

impl Checked for Once<Owners<u64>> {
    const UNITS: Option<u64> = Some(LEVELS as u64);

    fn check(&self) {
        if !cfg!(miri) {
            self.0.check_invariants();
        }
    }
}

impl<Q: TimerQueue<u32> + Checked> Checked for Once<Standing<u64, Q>> {
    const UNITS: Option<u64> = Q::UNITS;

    fn check(&self) {
        assert_eq!(self.0.len(), self.0.queue().len(), "all are armed");
        self.0.queue().check();
    }
}
