use core::ops::RangeInclusive;

use super::{LEVELS, OwnerExpiry, Owners};
use crate::{BeyondHorizon, Expired, Expiry, ReusableTimers, SlotRing, Tick, TimerKey, WorkBudget};

/// Index of the only timer of an owner.
pub(super) const ONLY_TIMER: usize = 0;

/// Owners with one timer each. Never returns an error, because the wheel has no horizon.
impl<T> ReusableTimers<T> for Owners<T> {
    #[inline]
    fn now(&self) -> Tick {
        self.now()
    }

    #[inline]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn register(&mut self, value: T) -> TimerKey {
        self.insert(value)
    }

    #[inline]
    fn unregister(&mut self, key: TimerKey) -> Option<T> {
        self.remove(key)
    }

    #[inline]
    fn get(&self, key: TimerKey) -> Option<&T> {
        self.get(key)
    }

    #[inline(always)]
    fn arm(&mut self, key: TimerKey, deadline: Tick) -> Result<bool, BeyondHorizon<()>> {
        Ok(self.get_mut(key).map(|mut timer| timer.arm(ONLY_TIMER, deadline)).is_some())
    }

    #[inline(always)]
    fn arm_within(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> Result<bool, BeyondHorizon<()>> {
        Ok(self.get_mut(key).map(|mut timer| timer.arm_within(ONLY_TIMER, range)).is_some())
    }

    #[inline]
    fn disarm(&mut self, key: TimerKey) -> bool {
        self.get_mut(key).is_some_and(|mut timer| timer.disarm(ONLY_TIMER))
    }

    #[inline]
    fn deadline(&self, key: TimerKey) -> Option<Tick> {
        self.deadline(key, ONLY_TIMER)
    }

    #[inline(always)]
    fn expire_next(&mut self, now: Tick, work: &mut WorkBudget) -> Expiry<&mut T> {
        match self.expire_next(now, work) {
            OwnerExpiry::Due(due) => {
                let key = due.owner.key();
                Expiry::Due(Expired { key, deadline: due.deadline, value: due.owner.into_value() })
            }
            OwnerExpiry::OutOfBudget => Expiry::OutOfBudget,
            OwnerExpiry::UpToDate => Expiry::UpToDate,
        }
    }

    #[inline]
    fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        self.next_wakeup(at_most)
    }

    #[inline]
    fn levels(&self) -> usize {
        LEVELS
    }

    #[inline]
    fn occupancy(&self, level: usize) -> usize {
        self.occupancy_of(level)
    }

    #[inline]
    fn ring(&self, ring: usize, counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        self.ring(ring, counts)
    }
}
