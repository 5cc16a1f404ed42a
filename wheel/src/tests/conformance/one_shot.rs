//! Adapter from reusable timers to the interface of one-shot timers, so that the same tests run for both.

use core::ops::RangeInclusive;

use super::{CheckedQueue, LEVELS};
use crate::schemes::Reusable;
use crate::{
    BeyondHorizon, Expired, Expiry, Owners, ReusableTimers, SlotRing, Tick, TimerKey, TimerQueue, WorkBudget,
};

pub(super) struct OneShot<S>(pub(super) S);

impl<S: ReusableTimers<u64>> OneShot<S> {
    fn armed(
        &mut self,
        key: TimerKey,
        armed: Result<bool, BeyondHorizon<()>>,
    ) -> Result<TimerKey, BeyondHorizon<u64>> {
        match armed {
            Ok(is_there) => {
                assert!(is_there, "just registered");
                Ok(key)
            }
            Err(BeyondHorizon { last, .. }) => {
                assert_eq!(self.0.deadline(key), None);
                let value = self.0.unregister(key).expect("just registered");
                Err(BeyondHorizon { value, last })
            }
        }
    }
}

impl<S: ReusableTimers<u64>> TimerQueue<u64> for OneShot<S> {
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

    fn expire_next(&mut self, now: Tick, work: &mut WorkBudget) -> Expiry<u64> {
        match self.0.expire_next(now, work) {
            Expiry::Due(Expired { key, deadline, value }) => {
                let value = *value;
                assert_eq!(self.0.deadline(key), None, "no longer armed");
                assert_eq!(self.0.unregister(key), Some(value), "still registered");
                Expiry::Due(Expired { key, deadline, value })
            }
            Expiry::OutOfBudget => Expiry::OutOfBudget,
            Expiry::UpToDate => Expiry::UpToDate,
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

    fn ring(&self, ring: usize, counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        self.0.ring(ring, counts)
    }
}

impl CheckedQueue for OneShot<Owners<u64>> {
    const MAX_UNITS_PER_TIMER: Option<u64> = Some(LEVELS as u64);

    fn check(&self) {
        if !cfg!(miri) {
            self.0.check_invariants();
        }
    }
}

impl<Q: TimerQueue<u32> + CheckedQueue> CheckedQueue for OneShot<Reusable<u64, Q>> {
    const MAX_UNITS_PER_TIMER: Option<u64> = Q::MAX_UNITS_PER_TIMER;

    fn check(&self) {
        assert_eq!(self.0.len(), self.0.queue().len(), "all are armed");
        self.0.queue().check();
    }
}
