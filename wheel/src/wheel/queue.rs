use super::{LEVELS, TimingWheel};
use crate::{BeyondHorizon, Expiry, SlotRing, Tick, TimerKey, TimerQueue, WorkBudget};

/// Never returns an error, because the wheel has no horizon.
impl<T> TimerQueue<T> for TimingWheel<T> {
    #[inline]
    fn now(&self) -> Tick {
        self.now()
    }

    #[inline]
    fn len(&self) -> usize {
        self.len()
    }

    #[inline]
    fn schedule(&mut self, deadline: Tick, value: T) -> Result<TimerKey, BeyondHorizon<T>> {
        Ok(self.schedule(deadline, value))
    }

    #[inline]
    fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> Result<bool, BeyondHorizon<()>> {
        Ok(self.reschedule(key, deadline))
    }

    #[inline]
    fn cancel(&mut self, key: TimerKey) -> Option<T> {
        self.cancel(key)
    }

    #[inline]
    fn deadline(&self, key: TimerKey) -> Option<Tick> {
        self.deadline(key)
    }

    #[inline]
    fn get(&self, key: TimerKey) -> Option<&T> {
        self.get(key)
    }

    #[inline]
    fn expire_next(&mut self, now: Tick, work: &mut WorkBudget) -> Expiry<T> {
        self.expire_next(now, work)
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
        self.timers.slots.len(level)
    }

    #[inline]
    fn ring(&self, ring: usize, counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        self.ring(ring, counts)
    }
}
