use core::ops::RangeInclusive;

use super::arena::Arena;
use crate::{
    BeyondHorizon, Expired, Expiry, ReusableTimers, SlotRing, Tick, TimerKey, TimerQueue, WorkBudget,
};

/// [Reusable timers](ReusableTimers) on top of any scheme. Arming a timer schedules it in the underlying
/// queue.
///
/// ```
/// use encke_wheel::schemes::{Lawn, Reusable};
/// use encke_wheel::{Expiry, ReusableTimers, Tick, WorkBudget};
///
/// let mut timers = Reusable::new(Lawn::new(Tick(0)));
/// let ping = timers.register("ping");
/// timers.arm(ping, Tick(25))?;
/// timers.arm(ping, Tick(50))?;
/// let Expiry::Due(expired) = timers.expire_next(Tick(50), &mut WorkBudget::unlimited()) else { panic!("not due") };
/// assert_eq!((expired.key, *expired.value), (ping, "ping"));
/// assert_eq!(timers.unregister(ping), Some("ping"));
/// # Ok::<(), encke_wheel::BeyondHorizon<()>>(())
/// ```
#[derive(Debug)]
pub struct Reusable<T, Q> {
    /// Armed timers. Each value is the index of a timer in `timers`.
    queue: Q,
    /// All timers. While a timer is armed, its link is its key in the queue.
    timers: Arena<Option<TimerKey>, T>,
}

impl<T, Q: TimerQueue<u32>> Reusable<T, Q> {
    /// Creates reusable timers that are scheduled in `queue`.
    ///
    /// # Panics
    ///
    /// Panics if the queue is not empty.
    #[must_use]
    pub fn new(queue: Q) -> Self {
        assert!(queue.is_empty(), "the queue is not empty");
        Reusable { queue, timers: Arena::new() }
    }

    /// Returns the underlying queue. Its values are internal indices.
    #[must_use]
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    fn armed(&self, key: TimerKey) -> Option<TimerKey> {
        self.timers.nodes[self.timers.find(key)? as usize].link
    }
}

fn without_value(BeyondHorizon { last, .. }: BeyondHorizon<u32>) -> BeyondHorizon<()> {
    BeyondHorizon { value: (), last }
}

impl<T, Q: TimerQueue<u32>> ReusableTimers<T> for Reusable<T, Q> {
    #[inline]
    fn now(&self) -> Tick {
        self.queue.now()
    }

    #[inline]
    fn len(&self) -> usize {
        self.timers.len
    }

    #[inline]
    fn horizon(&self) -> Option<u64> {
        self.queue.horizon()
    }

    #[inline]
    fn precision(&self, ahead: u64) -> u64 {
        self.queue.precision(ahead)
    }

    #[inline]
    fn register(&mut self, value: T) -> TimerKey {
        self.timers.insert(value)
    }

    #[inline]
    fn unregister(&mut self, key: TimerKey) -> Option<T> {
        self.disarm(key);
        self.timers.find(key).map(|index| self.timers.remove(index))
    }

    #[inline]
    fn get(&self, key: TimerKey) -> Option<&T> {
        self.timers.values[self.timers.find(key)? as usize].as_ref()
    }

    #[inline]
    fn arm(&mut self, key: TimerKey, deadline: Tick) -> Result<bool, BeyondHorizon<()>> {
        let Some(index) = self.timers.find(key) else { return Ok(false) };
        let link = &mut self.timers.nodes[index as usize].link;
        match *link {
            Some(armed) => self.queue.reschedule(armed, deadline),
            None => {
                *link = Some(self.queue.schedule(deadline, index).map_err(without_value)?);
                Ok(true)
            }
        }
    }

    #[inline]
    fn arm_within(&mut self, key: TimerKey, range: RangeInclusive<Tick>) -> Result<bool, BeyondHorizon<()>> {
        let Some(index) = self.timers.find(key) else { return Ok(false) };
        let link = &mut self.timers.nodes[index as usize].link;
        match *link {
            Some(armed) => self.queue.reschedule_within(armed, range),
            None => {
                *link = Some(self.queue.schedule_within(range, index).map_err(without_value)?);
                Ok(true)
            }
        }
    }

    #[inline]
    fn disarm(&mut self, key: TimerKey) -> bool {
        let Some(index) = self.timers.find(key) else { return false };
        let armed = self.timers.nodes[index as usize].link.take();
        armed.is_some_and(|armed| self.queue.cancel(armed).is_some())
    }

    #[inline]
    fn deadline(&self, key: TimerKey) -> Option<Tick> {
        self.queue.deadline(self.armed(key)?)
    }

    #[inline]
    fn expire_next(&mut self, now: Tick, work: &mut WorkBudget) -> Expiry<&mut T> {
        match self.queue.expire_next(now, work) {
            Expiry::Due(Expired { deadline, value: index, .. }) => {
                let key = self.timers.key(index);
                self.timers.nodes[index as usize].link = None;
                let value = self.timers.values[index as usize].as_mut().expect("armed timers are registered");
                Expiry::Due(Expired { key, deadline, value })
            }
            Expiry::OutOfBudget => Expiry::OutOfBudget,
            Expiry::UpToDate => Expiry::UpToDate,
        }
    }

    #[inline]
    fn next_wakeup(&self, at_most: Tick) -> Option<Tick> {
        self.queue.next_wakeup(at_most)
    }

    #[inline]
    fn levels(&self) -> usize {
        self.queue.levels()
    }

    #[inline]
    fn occupancy(&self, level: usize) -> usize {
        self.queue.occupancy(level)
    }

    #[inline]
    fn ring(&self, ring: usize, counts: &mut [u32; SlotRing::MAX_SLOTS]) -> Option<SlotRing> {
        self.queue.ring(ring, counts)
    }
}
