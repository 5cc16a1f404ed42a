use std::collections::VecDeque;
use std::task::Waker;
use std::time::Duration;

use atomic_waker::AtomicWaker;
use encke_core::Timestamp;
use parking_lot::Mutex;

/// Those whose delays end within so long are taken together.
const TOGETHER: Duration = Duration::from_millis(25);

/// An empty queue keeps room for so many, and no more.
const KEPT: usize = 64;

/// Those that wait for the ends of their delays, all on one timer.
///
/// There are few different delays: the one that is configured, and its doubles. Those of one delay are in one queue, in the order of their
/// ends. So to join is to be put at the back, and to find all that are due is to look at the fronts. Nobody leaves before: an end that is of
/// no use any more does nothing. So what waits here is a reference that keeps nothing alive.
#[derive(Debug)]
pub(crate) struct Line<T> {
    queues: Mutex<Queues<T>>,
    /// The task that takes those that are due.
    taker: AtomicWaker,
}

#[derive(Debug)]
struct Queues<T> {
    by_delay: Vec<(Duration, VecDeque<(Timestamp, T)>)>,
    /// When there is somebody to take. Nothing while nobody waits.
    next_look: Option<Timestamp>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        let queues = Queues { by_delay: Vec::new(), next_look: None };
        Self { queues: Mutex::new(queues), taker: AtomicWaker::new() }
    }
}

impl<T> Line<T> {
    /// `waiting` is due after this delay, or a little later.
    pub(crate) fn join(&self, now: Timestamp, delay: Duration, waiting: T) {
        let due = now + delay;
        let is_earlier = {
            let mut queues = self.queues.lock();
            match queues.by_delay.iter_mut().find(|(of, _)| *of == delay) {
                Some((_, queue)) => queue.push_back((due, waiting)),
                None => queues.by_delay.push((delay, VecDeque::from([(due, waiting)]))),
            }
            let is_earlier = queues.next_look.is_none_or(|next| due < next);
            if is_earlier {
                queues.next_look = Some(due);
            }
            is_earlier
        };
        if is_earlier {
            self.taker.wake();
        }
    }

    /// When there is somebody to take, as far as is known now. `taker` is woken if that becomes earlier.
    pub(crate) fn next_look(&self, taker: &Waker) -> Option<Timestamp> {
        // First: whoever joins after the look wakes it.
        self.taker.register(taker);
        self.queues.lock().next_look
    }

    /// Takes those that are due into `due`, until it has so many. Returns whether there may be more.
    pub(crate) fn take_due(&self, now: Timestamp, due: &mut Vec<T>, most: usize) -> bool {
        let mut queues = self.queues.lock();
        let Queues { by_delay, next_look } = &mut *queues;
        by_delay.retain_mut(|(_, queue)| {
            while due.len() < most
                && let Some((_, waiting)) = queue.pop_front_if(|(at, _)| *at <= now)
            {
                due.push(waiting);
            }
            // A crowd that has left must not keep its memory.
            !queue.is_empty() || queue.capacity() <= KEPT
        });
        let first = by_delay.iter().filter_map(|(_, queue)| Some(queue.front()?.0)).min();
        *next_look = first.map(|first| first.max(now + TOGETHER));
        due.len() == most
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Wakes(AtomicU32);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const fn at(ms: u64) -> Timestamp {
        // No instant is zero.
        Timestamp::from_nanos((ms + 1) * 1_000_000)
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn taken<T>(line: &Line<T>, now: Timestamp) -> Vec<T> {
        let mut due = Vec::new();
        assert!(!line.take_due(now, &mut due, 100));
        due
    }

    #[test]
    fn each_is_taken_after_its_delay_and_those_that_are_due_soon_together() {
        let line = Line::default();
        let look = || line.next_look(Waker::noop());
        assert_eq!(look(), None);
        line.join(at(0), ms(400), "slow");
        line.join(at(10), ms(200), "one");
        line.join(at(20), ms(200), "two");
        line.join(at(40), ms(200), "three");
        assert_eq!(look(), Some(at(210)));
        assert!(taken(&line, at(209)).is_empty(), "never early");
        assert_eq!(look(), Some(at(234)), "not before 25 ms have passed");
        assert_eq!(taken(&line, at(234)), ["one", "two"]);
        assert_eq!(look(), Some(at(259)), "later than the end of the third");
        assert_eq!(taken(&line, at(259)), ["three"]);
        assert_eq!(look(), Some(at(400)));
        assert_eq!(taken(&line, at(5_000)), ["slow"]);
        assert_eq!(look(), None);
    }

    #[test]
    fn the_taker_is_woken_for_an_earlier_end_alone() {
        let (line, wakes) = (Line::default(), Arc::new(Wakes::default()));
        let taker = Waker::from(Arc::clone(&wakes));
        for (delay, expected) in [(400, 1), (400, 1), (500, 1), (200, 2), (300, 2)] {
            let _ = line.next_look(&taker);
            line.join(at(0), ms(delay), ());
            assert_eq!(wakes.0.load(Ordering::Relaxed), expected, "after one of {delay} ms");
        }
    }

    #[test]
    fn of_many_some_are_taken_at_a_time_and_none_keeps_memory() {
        let line = Line::default();
        for number in 0..10_000 {
            line.join(at(0), ms(200), number);
        }
        let (mut due, mut all) = (Vec::new(), Vec::new());
        while line.take_due(at(200), &mut due, 256) {
            assert_eq!(due.len(), 256);
            all.append(&mut due);
        }
        all.append(&mut due);
        assert!(all.iter().copied().eq(0..10_000));
        assert!(line.queues.lock().by_delay.is_empty());
    }
}
