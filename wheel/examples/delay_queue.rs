//! A delay queue for tokio: insert values with deadlines, and await the next one.
//!
//! ```sh
//! cargo run -p encke-wheel --example delay_queue
//! ```
//!
//! The wheel has no clock and no waker, but the runtime has both. A single `Sleep` for all timers combines
//! them: it is set to the next tick at which the wheel has something to do.
#![allow(clippy::print_stdout, reason = "prints the values")]

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use encke_wheel::{Expiry, Tick, TimerKey, TimingWheel, WorkBudget};
use tokio::runtime;
use tokio::time::{Duration, Instant, Sleep, sleep_until};

/// Nanoseconds per tick: a tick is a millisecond, as in tokio's own timers.
const MILLISECOND: u128 = 1_000_000;

/// Maximum number of timers that may move within the wheel before the task yields.
const BUDGET: u64 = 1_024;

struct DelayQueue<T> {
    start: Instant,
    wheel: TimingWheel<T>,
    /// Sleep for all timers. It is boxed, because a polled `Sleep` must not move.
    sleep: Pin<Box<Sleep>>,
}

impl<T> DelayQueue<T> {
    fn new() -> Self {
        let start = Instant::now();
        DelayQueue { start, wheel: TimingWheel::new(Tick::ZERO), sleep: Box::pin(sleep_until(start)) }
    }

    fn insert(&mut self, deadline: Instant, value: T) -> TimerKey {
        self.wheel.schedule(self.tick(deadline), value)
    }

    /// Changes the deadline of a value. Returns `false` if the value has already expired.
    fn reset(&mut self, key: TimerKey, deadline: Instant) -> bool {
        self.wheel.reschedule(key, self.tick(deadline))
    }

    /// Removes a value. Returns `None` if it has already expired, even if its memory has been reused.
    fn remove(&mut self, key: TimerKey) -> Option<T> {
        self.wheel.cancel(key)
    }

    /// Waits for the next value to become due. Returns `None` if the queue is empty.
    ///
    /// Cancel safe: a value that is due stays in the wheel until it is returned. The future may be used in
    /// `select!` alongside a branch that inserts.
    async fn next(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        loop {
            match self.wheel.expire_next(self.now(), &mut WorkBudget::new(BUDGET)) {
                Expiry::Due(expired) => return Poll::Ready(Some(expired.value)),
                Expiry::OutOfBudget => {
                    // Yield to other tasks. Nothing else would wake this task.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Expiry::UpToDate => {}
            }
            // Check this even if the wheel has a wake-up: the wake-up may belong to a timer that has been
            // moved or removed.
            if self.wheel.is_empty() {
                return Poll::Ready(None);
            }
            let wakeup = self.instant(self.wheel.next_wakeup(Tick::MAX).unwrap_or(Tick::MAX));
            self.sleep.as_mut().reset(wakeup);
            // Poll after each reset, because only polling registers the waker. If the sleep has already
            // elapsed, drive the wheel again.
            ready!(self.sleep.as_mut().poll(context));
        }
    }

    /// Returns the current tick. The time is rounded down, and deadlines are rounded up, so that no value is
    /// early.
    fn now(&self) -> Tick {
        Tick(u64::try_from(self.start.elapsed().as_nanos() / MILLISECOND).unwrap_or(u64::MAX))
    }

    fn tick(&self, deadline: Instant) -> Tick {
        let ahead = deadline.saturating_duration_since(self.start).as_nanos();
        Tick(u64::try_from(ahead.div_ceil(MILLISECOND)).unwrap_or(u64::MAX))
    }

    /// Converts a tick to an `Instant`. For a tick beyond the range of `Instant`, returns a year from now,
    /// when the queue checks again.
    fn instant(&self, tick: Tick) -> Instant {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        self.start.checked_add(Duration::from_millis(tick.0)).unwrap_or_else(|| Instant::now() + YEAR)
    }
}

/// Inserts four values, of which one is postponed, one is moved to an earlier deadline, and one is removed.
/// Returns the received values with their deadlines and times of arrival.
async fn scenario() -> Vec<(&'static str, Instant, Instant)> {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut queue = DelayQueue::new();
    let mut expected = vec![("earlier", at(30)), ("unchanged", at(100)), ("postponed", at(250))];
    queue.insert(at(100), "unchanged");
    let put_off = queue.insert(at(50), "postponed");
    let earlier = queue.insert(at(3_600_000), "earlier");
    let removed = queue.insert(at(70), "removed");
    assert!(queue.reset(put_off, at(250)));
    assert!(queue.reset(earlier, at(30)));
    assert_eq!(queue.remove(removed), Some("removed"));
    assert_eq!(queue.remove(removed), None, "the key is stale");

    let mut received = Vec::new();
    while let Some(value) = queue.next().await {
        let (name, deadline) = expected.remove(0);
        assert_eq!(value, name, "in the order of deadlines");
        received.push((value, deadline, Instant::now()));
    }
    assert!(expected.is_empty(), "the queue is exhausted");
    assert!(!queue.reset(put_off, at(300)), "already expired");
    received
}

fn main() -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    for (value, deadline, received) in runtime.block_on(scenario()) {
        let late = received.checked_duration_since(deadline).expect("no value is early");
        println!("{value:>9}: {late:?} after its deadline");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(test: impl Future) {
        let runtime = runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("the runtime starts").block_on(test);
    }

    #[test]
    fn values_expire_in_order_and_never_early() {
        run(async {
            for (value, deadline, received) in scenario().await {
                assert!(received >= deadline, "{value}");
            }
        });
    }

    #[test]
    fn moving_many_timers_yields_to_other_tasks() {
        run(async {
            let mut queue = DelayQueue::new();
            let start = queue.start;
            for index in 0..10 * BUDGET {
                queue.insert(start + Duration::from_millis(1_000 + index % 7), index);
            }
            for _ in 0..10 * BUDGET {
                assert!(queue.next().await.is_some());
            }
            assert_eq!(queue.next().await, None);
            assert!(start.elapsed() >= Duration::from_millis(1_006));
        });
    }

    #[test]
    fn a_deadline_beyond_all_instants_stays_pending() {
        run(async {
            let mut queue = DelayQueue::new();
            queue.wheel.schedule(Tick(u64::MAX - 1), "at the end of time");
            let next = tokio::time::timeout(Duration::from_millis(50), queue.next());
            assert!(next.await.is_err());
        });
    }
}
