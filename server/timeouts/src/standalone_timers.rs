use std::collections::HashMap;
use std::sync::Arc;

use crate::timer_cell::TimerCell;

/// Capacity above which the table can be shrunk.
const MIN_SHRINK_CAPACITY: usize = 64;

/// Timers in the wheel that belong to no session: the timers of logs, reminders and sleeps. The wheel refers
/// to each of them by a number, as it refers to a session by its slot.
#[derive(Debug, Default)]
pub(crate) struct StandaloneTimers {
    timers: HashMap<u32, Arc<TimerCell>>,
    next: u32,
}

const STILL_REGISTERED: &str = "the timer is registered until the wheel removes it";

impl StandaloneTimers {
    /// Inserts a timer and returns its number.
    pub(crate) fn insert(&mut self, timer: Arc<TimerCell>) -> u32 {
        // This terminates, because there are always far fewer than 2^32 timers.
        while self.timers.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        self.timers.insert(self.next, timer);
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }

    pub(crate) fn get(&self, number: u32) -> &Arc<TimerCell> {
        self.timers.get(&number).expect(STILL_REGISTERED)
    }

    pub(crate) fn remove(&mut self, number: u32) -> Arc<TimerCell> {
        let timer = self.timers.remove(&number).expect(STILL_REGISTERED);
        // Release the memory after a peak.
        if self.timers.capacity() > MIN_SHRINK_CAPACITY && self.timers.len() < self.timers.capacity() / 4 {
            self.timers.shrink_to(self.timers.len() * 2);
        }
        timer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer_owner::TimerOwner;

    #[test]
    fn numbers_are_unique_and_memory_is_released_after_a_peak() {
        let timer = Arc::new(TimerCell::new(TimerOwner::Sleep));
        let mut timers = StandaloneTimers { next: u32::MAX - 10, ..StandaloneTimers::default() };
        let first = timers.insert(Arc::clone(&timer));
        let numbers: Vec<_> = (0..10_000).map(|_| timers.insert(Arc::clone(&timer))).collect();
        assert_eq!(timers.timers.len(), 10_001);
        timers.next = first;
        assert!(!numbers.contains(&timers.insert(Arc::clone(&timer))));
        numbers.iter().for_each(|number| drop(timers.remove(*number)));
        assert!(Arc::ptr_eq(timers.get(first), &timer));
        assert_eq!(Arc::strong_count(&timer), 3);
        assert!(timers.timers.capacity() <= 2 * MIN_SHRINK_CAPACITY, "{}", timers.timers.capacity());
    }
}
