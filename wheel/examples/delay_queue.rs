//! A delay queue for tokio: put values in, each with the time at which it is wanted back, and await the next.
//!
//! ```sh
//! cargo run -p encke-wheel --example delay_queue
//! ```
//!
//! The wheel has no clock and no waker. The runtime has both, and this is all that it takes to bring them together: one `Sleep` for all
//! timers, set to when the wheel has something to do.
#![allow(clippy::print_stdout, reason = "it says what comes out")]

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use encke_wheel::{Expire, Tick, TimerKey, TimingWheel, Work};
use tokio::runtime;
use tokio::time::{Duration, Instant, Sleep, sleep_until};

/// A tick is a millisecond, as in tokio's own timers.
const MILLISECOND: u128 = 1_000_000;

/// How many timers may move within the wheel before other tasks have their turn.
const BUDGET: u64 = 1_024;

struct DelayQueue<T> {
    start: Instant,
    wheel: TimingWheel<T>,
    /// One for all timers, and in a box, because it may not move once it was polled.
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

    /// Returns `false` if the value came out already. Putting off is one store, however often.
    fn reset(&mut self, key: TimerKey, deadline: Instant) -> bool {
        self.wheel.reschedule(key, self.tick(deadline))
    }

    /// Returns `None` if the value came out already, even if another has its memory by now.
    fn remove(&mut self, key: TimerKey) -> Option<T> {
        self.wheel.cancel(key)
    }

    /// The next value, once it is due; `None` if there is none.
    ///
    /// Dropping the future before it is ready loses nothing: what is due stays in the wheel. So it may be a branch of `select!`
    /// beside one that inserts.
    async fn next(&mut self) -> Option<T> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// What a `Stream` would have.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<T>> {
        loop {
            match self.wheel.expire_next(self.now(), &mut Work::new(BUDGET)) {
                Expire::Due(expired) => return Poll::Ready(Some(expired.value)),
                Expire::OutOfWork => {
                    // To be polled again at once, after the others: nothing else would wake this task.
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Expire::UpToDate => {}
            }
            // Asked apart: the wake-up may be that of a timer that was moved or taken out, and so there may be one with no timer left.
            if self.wheel.is_empty() {
                return Poll::Ready(None);
            }
            let wakeup = self.instant(self.wheel.next_wakeup(Tick::MAX).unwrap_or(Tick::MAX));
            self.sleep.as_mut().reset(wakeup);
            // Polled after each reset, since only a poll registers the waker. If its time is over by now, go around once more: the
            // wheel may only have had timers to move.
            ready!(self.sleep.as_mut().poll(context));
        }
    }

    /// Rounded down, and deadlines up: so nothing comes early.
    fn now(&self) -> Tick {
        Tick(u64::try_from(self.start.elapsed().as_nanos() / MILLISECOND).unwrap_or(u64::MAX))
    }

    fn tick(&self, deadline: Instant) -> Tick {
        let ahead = deadline.saturating_duration_since(self.start).as_nanos();
        Tick(u64::try_from(ahead.div_ceil(MILLISECOND)).unwrap_or(u64::MAX))
    }

    /// Far enough for any timer: a year from now one looks again.
    fn instant(&self, tick: Tick) -> Instant {
        const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
        self.start.checked_add(Duration::from_millis(tick.0)).unwrap_or_else(|| Instant::now() + YEAR)
    }
}

/// Four values, of which one is put off, one comes earlier, and one is taken out again.
async fn story() -> Vec<(&'static str, Instant, Instant)> {
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    let mut queue = DelayQueue::new();
    let mut expected = vec![("earlier", at(30)), ("as it was", at(100)), ("put off", at(250))];
    queue.insert(at(100), "as it was");
    let put_off = queue.insert(at(50), "put off");
    let earlier = queue.insert(at(3_600_000), "earlier");
    let removed = queue.insert(at(70), "removed");
    assert!(queue.reset(put_off, at(250)));
    assert!(queue.reset(earlier, at(30)));
    assert_eq!(queue.remove(removed), Some("removed"));
    assert_eq!(queue.remove(removed), None, "the key is stale");

    let mut came = Vec::new();
    while let Some(value) = queue.next().await {
        let (name, deadline) = expected.remove(0);
        assert_eq!(value, name, "in the order of deadlines");
        came.push((value, deadline, Instant::now()));
    }
    assert!(expected.is_empty(), "the queue ends once it is empty");
    assert!(!queue.reset(put_off, at(300)), "it came out");
    came
}

fn main() -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    for (value, deadline, came) in runtime.block_on(story()) {
        let late = came.checked_duration_since(deadline).expect("nothing comes early");
        println!("{value:>9}: {late:?} after its deadline");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a clock that stands still while a task is busy, and leaps to the next timer when all of them wait.
    fn paused(test: impl Future) {
        let runtime = runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn all_of_it_comes_on_its_millisecond() {
        paused(async {
            let start = Instant::now();
            for (value, deadline, came) in story().await {
                assert_eq!(came, deadline, "{value}");
            }
            assert_eq!(
                start.elapsed(),
                Duration::from_millis(250),
                "it waits for nothing that was taken out"
            );
        });
    }

    #[test]
    fn a_clump_that_only_moves_lets_others_have_their_turn() {
        paused(async {
            let mut queue = DelayQueue::new();
            let start = queue.start;
            for index in 0..10 * BUDGET {
                queue.insert(start + Duration::from_millis(1_000 + index % 7), index);
            }
            let mut came = 0;
            while queue.next().await.is_some() {
                came += 1;
            }
            assert_eq!(came, 10 * BUDGET);
            assert_eq!(Instant::now() - start, Duration::from_millis(1_006));
        });
    }

    #[test]
    fn a_deadline_beyond_all_instants_waits() {
        paused(async {
            let mut queue = DelayQueue::new();
            queue.wheel.schedule(Tick(u64::MAX - 1), "at the end of time");
            let next = tokio::time::timeout(Duration::from_secs(1), queue.next());
            assert!(next.await.is_err());
        });
    }
}
