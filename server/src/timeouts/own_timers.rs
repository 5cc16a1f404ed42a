use std::collections::HashMap;
use std::sync::Arc;

use super::TimerCell;

/// Of so few, the table is not made smaller.
const FEW: usize = 64;

/// The timers of the wheel that are no session's: of logs, of reminders and of sleeps. The wheel has a number of each, as it has of a session.
#[derive(Debug, Default)]
pub(super) struct OwnTimers {
    timers: HashMap<u32, Arc<TimerCell>>,
    next: u32,
}

const THERE: &str = "a timer is there until the wheel lets it go";

impl OwnTimers {
    /// Returns the timer's number.
    pub(super) fn insert(&mut self, timer: Arc<TimerCell>) -> u32 {
        // There are far fewer than 2^32 at a time.
        while self.timers.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        self.timers.insert(self.next, timer);
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }

    pub(super) fn get(&self, number: u32) -> &Arc<TimerCell> {
        self.timers.get(&number).expect(THERE)
    }

    pub(super) fn remove(&mut self, number: u32) -> Arc<TimerCell> {
        let timer = self.timers.remove(&number).expect(THERE);
        // A crowd that has left must not keep its memory.
        if self.timers.capacity() > FEW && self.timers.len() < self.timers.capacity() / 4 {
            self.timers.shrink_to(self.timers.len() * 2);
        }
        timer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeouts::TimerOwner;

    #[test]
    fn numbers_are_not_given_twice_and_a_crowd_that_has_left_keeps_no_memory() {
        let timer = Arc::new(TimerCell::new(TimerOwner::Sleep));
        let mut timers = OwnTimers { next: u32::MAX - 10, ..OwnTimers::default() };
        let first = timers.insert(Arc::clone(&timer));
        let numbers: Vec<_> = (0..10_000).map(|_| timers.insert(Arc::clone(&timer))).collect();
        assert_eq!(timers.timers.len(), 10_001);
        timers.next = first;
        assert!(!numbers.contains(&timers.insert(Arc::clone(&timer))));
        numbers.iter().for_each(|number| drop(timers.remove(*number)));
        assert!(Arc::ptr_eq(timers.get(first), &timer));
        assert_eq!(Arc::strong_count(&timer), 3);
        assert!(timers.timers.capacity() <= 2 * FEW, "{}", timers.timers.capacity());
    }
}
