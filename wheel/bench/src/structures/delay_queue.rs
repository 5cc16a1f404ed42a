//! tokio-util's `DelayQueue`.
//!
//! The queue belongs to a tokio runtime and uses the runtime's clock to decide whether the next timer is due.
//! This benchmark pauses the clock (`tokio::time::pause`) and advances it explicitly, by one millisecond per
//! tick. Setting, moving and cancelling take deadlines as `Instant`s, so no clock is read. To advance time,
//! the benchmark advances the clock in one step and polls the queue until nothing is due. The queue is polled
//! outside of any task, because within a task, tokio would interrupt it after 128 timers.

use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::time::{Instant, advance};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::{ExpiredTimer, Structure};

pub(crate) struct TokioDelayQueue {
    queue: DelayQueue<u64>,
    start: Instant,
    now: u64,
    /// Keeps the runtime current, because `DelayQueue` sets a timer in the current runtime.
    _context: EnterGuard<'static>,
}

impl Structure for TokioDelayQueue {
    const NAME: &'static str = "DelayQueue";

    type Key = Key;

    fn new(_reach: u64) -> Self {
        let context = runtime().enter();
        TokioDelayQueue { queue: DelayQueue::new(), start: Instant::now(), now: 0, _context: context }
    }

    fn schedule(&mut self, deadline: u64, value: u64) -> Key {
        self.queue.insert_at(value, self.start + Duration::from_millis(deadline))
    }

    fn reschedule(&mut self, key: Key, deadline: u64) -> bool {
        self.queue.reset_at(&key, self.start + Duration::from_millis(deadline));
        true
    }

    fn cancel(&mut self, key: Key) -> bool {
        self.queue.try_remove(&key).is_some()
    }

    fn expire_next(&mut self, tick: u64) -> Option<ExpiredTimer> {
        if tick > self.now {
            runtime().block_on(advance(Duration::from_millis(tick - self.now)));
            self.now = tick;
        }
        let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut Context::from_waker(Waker::noop()))
        else {
            return None;
        };
        let ahead = (expired.deadline() - self.start).as_millis();
        let tick = u64::try_from(ahead).expect("deadlines were made of 64 bits");
        Some(ExpiredTimer { tick, value: expired.into_inner() })
    }
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime needs no resources")
    })
}
