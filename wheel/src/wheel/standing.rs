use core::ops::RangeInclusive;

use super::{LEVELS, Lent, Owners};
use crate::{BeyondHorizon, Expire, Expired, Ring, StandingTimers, Tick, TimerKey, Work};

/// The only timer of its owner.
pub(super) const IT: usize = 0;

/// Owners with one timer each. A wheel without a horizon refuses nothing.
impl<T> StandingTimers<T> for Owners<T> {
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
        Ok(self.get_mut(key).map(|mut timer| timer.arm(IT, deadline)).is_some())
    }

    #[inline(always)]
    fn arm_within(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> Result<bool, BeyondHorizon<()>> {
        Ok(self.get_mut(key).map(|mut timer| timer.arm_within(IT, range)).is_some())
    }

    #[inline]
    fn disarm(&mut self, key: TimerKey) -> bool {
        self.get_mut(key).is_some_and(|mut timer| timer.disarm(IT))
    }

    #[inline]
    fn deadline(&self, key: TimerKey) -> Option<Tick> {
        self.deadline(key, IT)
    }

    #[inline(always)]
    fn expire_next(&mut self, now: Tick, work: &mut Work) -> Expire<&mut T> {
        match self.expire_next(now, work) {
            Lent::Due(due) => {
                let key = due.owner.key();
                Expire::Due(Expired { key, deadline: due.deadline, value: due.owner.into_value() })
            }
            Lent::OutOfWork => Expire::OutOfWork,
            Lent::UpToDate => Expire::UpToDate,
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
    fn ring(&self, ring: usize, held: &mut [u32; Ring::MOST_SLOTS]) -> Option<Ring> {
        self.ring(ring, held)
    }
}
