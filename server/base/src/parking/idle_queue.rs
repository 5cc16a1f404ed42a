use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use atomic_waker::AtomicWaker;
use encke_core::Timestamp;

use crate::locks::Mutex;

/// Interval within which connections become due in one batch.
const BATCH_WINDOW: Duration = Duration::from_millis(25);

/// Maximum capacity at which an empty queue is kept for reuse.
const RETAINED_CAPACITY: usize = 64;

/// Connections waiting for their idle delays to elapse, all on one timer.
///
/// There are few distinct delays: the configured one, and its doublings. All entries with the same delay are
/// in one queue, ordered by due time. Therefore an entry is added at the back, and due entries are at the
/// fronts. Entries are not removed early: an entry that is no longer needed has no effect when it is taken.
/// An entry is only a reference that keeps nothing alive.
#[derive(Debug)]
pub struct IdleQueue<T> {
    queues: Mutex<Queues<T>>,
    /// Waker of the task that takes due entries.
    consumer: AtomicWaker,
}

#[derive(Debug)]
struct Queues<T> {
    by_delay: Vec<(Duration, VecDeque<(Timestamp, T)>)>,
    /// When to check for due entries next; `None` if there are no entries.
    next_check: Option<Timestamp>,
}

impl<T> Default for IdleQueue<T> {
    fn default() -> Self {
        let queues = Queues { by_delay: Vec::new(), next_check: None };
        Self { queues: Mutex::new(queues), consumer: AtomicWaker::new() }
    }
}

impl<T> IdleQueue<T> {
    /// Adds an entry that becomes due after this delay, or a little later.
    pub fn push(&self, now: Timestamp, delay: Duration, entry: T) {
        let due = now + delay;
        let is_earlier = {
            let mut queues = self.queues.lock();
            match queues.by_delay.iter_mut().find(|(of, _)| *of == delay) {
                Some((_, queue)) => queue.push_back((due, entry)),
                None => queues.by_delay.push((delay, VecDeque::from([(due, entry)]))),
            }
            let is_earlier = queues.next_check.is_none_or(|next| due < next);
            if is_earlier {
                queues.next_check = Some(due);
            }
            is_earlier
        };
        if is_earlier {
            self.consumer.wake();
        }
    }

    /// Returns when to check next, as known now. `consumer` is woken if an earlier entry is added.
    pub fn next_check(&self, consumer: &Waker) -> Option<Timestamp> {
        // Register first, so that an entry added after the check wakes the consumer.
        self.consumer.register(consumer);
        self.queues.lock().next_check
    }

    /// Moves due entries to `due` until it contains `limit` of them. Returns whether there may be more.
    pub fn take_due(&self, now: Timestamp, due: &mut Vec<T>, limit: usize) -> bool {
        let mut queues = self.queues.lock();
        let Queues { by_delay, next_check } = &mut *queues;
        by_delay.retain_mut(|(_, queue)| {
            while due.len() < limit
                && let Some((_, entry)) = queue.pop_front_if(|(at, _)| *at <= now)
            {
                due.push(entry);
            }
            // Release the memory of a queue that has been large.
            !queue.is_empty() || queue.capacity() <= RETAINED_CAPACITY
        });
        let first = by_delay.iter().filter_map(|(_, queue)| Some(queue.front()?.0)).min();
        *next_check = first.map(|first| first.max(now + BATCH_WINDOW));
        due.len() == limit
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct WakeCounter(AtomicU32);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const fn at(ms: u64) -> Timestamp {
        // Add one, because a timestamp is never zero.
        Timestamp::from_nanos((ms + 1) * 1_000_000)
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn taken<T>(queue: &IdleQueue<T>, now: Timestamp) -> Vec<T> {
        let mut due = Vec::new();
        assert!(!queue.take_due(now, &mut due, 100));
        due
    }

    #[test]
    fn entries_are_taken_in_batches_after_their_delays() {
        let queue = IdleQueue::default();
        let next_check = || queue.next_check(Waker::noop());
        assert_eq!(next_check(), None);
        queue.push(at(0), ms(400), "slow");
        queue.push(at(10), ms(200), "one");
        queue.push(at(20), ms(200), "two");
        queue.push(at(40), ms(200), "three");
        assert_eq!(next_check(), Some(at(210)));
        assert!(taken(&queue, at(209)).is_empty(), "never early");
        assert_eq!(next_check(), Some(at(234)), "not before 25 ms have passed");
        assert_eq!(taken(&queue, at(234)), ["one", "two"]);
        assert_eq!(next_check(), Some(at(259)), "after the third is due");
        assert_eq!(taken(&queue, at(259)), ["three"]);
        assert_eq!(next_check(), Some(at(400)));
        assert_eq!(taken(&queue, at(5_000)), ["slow"]);
        assert_eq!(next_check(), None);
    }

    #[test]
    fn consumer_is_woken_only_for_an_earlier_entry() {
        let (queue, wakes) = (IdleQueue::default(), Arc::new(WakeCounter::default()));
        let consumer = Waker::from(Arc::clone(&wakes));
        for (delay, expected) in [(400, 1), (400, 1), (500, 1), (200, 2), (300, 2)] {
            let _ = queue.next_check(&consumer);
            queue.push(at(0), ms(delay), ());
            assert_eq!(wakes.0.load(Ordering::Relaxed), expected, "after adding a delay of {delay} ms");
        }
    }

    #[test]
    fn entries_are_taken_up_to_a_limit_and_memory_is_released() {
        let queue = IdleQueue::default();
        for number in 0..10_000 {
            queue.push(at(0), ms(200), number);
        }
        let (mut due, mut all) = (Vec::new(), Vec::new());
        while queue.take_due(at(200), &mut due, 256) {
            assert_eq!(due.len(), 256);
            all.append(&mut due);
        }
        all.append(&mut due);
        assert!(all.iter().copied().eq(0..10_000));
        assert!(queue.queues.lock().by_delay.is_empty());
    }
}
