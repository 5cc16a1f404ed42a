use super::{LEVELS, TimingWheel};
use crate::{BeyondHorizon, Expire, Tick, TimerKey, TimerQueue, Work};

/// A wheel without a horizon refuses nothing.
impl<T> TimerQueue<T> for TimingWheel<T> {
    fn now(&self) -> Tick {
        self.now()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn schedule(&mut self, deadline: Tick, value: T) -> Result<TimerKey, BeyondHorizon<T>> {
        Ok(self.schedule(deadline, value))
    }

    fn reschedule(&mut self, key: TimerKey, deadline: Tick) -> Result<bool, BeyondHorizon<()>> {
        Ok(self.reschedule(key, deadline))
    }

    fn cancel(&mut self, key: TimerKey) -> Option<T> {
        self.cancel(key)
    }

    fn deadline(&self, key: TimerKey) -> Option<Tick> {
        self.deadline(key)
    }

    fn get(&self, key: TimerKey) -> Option<&T> {
        self.get(key)
    }

    fn expire_next(&mut self, now: Tick, work: &mut Work) -> Expire<T> {
        self.expire_next(now, work)
    }

    fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        self.next_wakeup(at_most)
    }

    fn levels(&self) -> usize {
        LEVELS
    }

    fn occupancy(&self, level: usize) -> usize {
        self.slots.len(level)
    }
}
