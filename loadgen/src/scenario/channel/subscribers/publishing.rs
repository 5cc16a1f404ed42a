//! Publishes to all subscribers and waits until everything has arrived.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, interval, sleep};

use super::Subscribers;
use crate::args;
use crate::scenario::Setup;
use crate::scenario::channel::publisher::{Publisher, Work};
use crate::scenario::channel::round::Round;
use crate::scenario::channel::schedule::Schedule;

/// From the last subscription to the first message.
const LEAD: Duration = Duration::from_millis(100);
/// How often to check whether the round is over.
const LOOK: Duration = Duration::from_millis(10);
/// How long to keep reading after everything has arrived: duplicates arrive late.
const SETTLE: Duration = Duration::from_millis(200);

/// What a scenario does while messages are published.
pub(crate) struct Concurrent<'a> {
    /// When the last of it is due.
    pub(crate) last_due: Instant,
    /// Changes while the work makes progress.
    pub(crate) progress: &'a dyn Fn() -> u64,
    pub(crate) is_done: &'a dyn Fn() -> bool,
}

impl Subscribers {
    /// Publishes all messages of a schedule. Returns when everything has arrived, or when nothing has arrived for the grace
    /// period. `others` is called once the schedule is known; its future runs at the same time.
    pub(crate) async fn publish_and_wait<'a, F: Future<Output = ()>>(
        &self,
        setup: &Rc<Setup>,
        round: &Round,
        others: impl FnOnce(&Round) -> (Concurrent<'a>, F),
    ) {
        if round.subscribed.get() == 0 {
            return;
        }
        let publisher = match Publisher::open(&self.options, setup).await {
            Ok(publisher) => publisher,
            Err(failure) => return setup.failures.record(&failure),
        };
        setup.recorder.phase("publish");
        let schedule = round.schedule.get_or_init(|| self.new_schedule());
        let (others, beside) = others(round);
        let publish = async {
            publisher.run(self.work(schedule, setup)).await;
            round.is_published.set(true);
        };
        tokio::select! {
            () = self.wait_for_end(round, schedule, &others) => {}
            ((), ()) = async { tokio::join!(publish, beside) } => {
                self.wait_for_end(round, schedule, &others).await;
            }
        }
        // The next round must not count this one again.
        self.rounds.take();
        self.tally.add(round);
    }

    fn new_schedule(&self) -> Schedule {
        let args::ChannelLoad { messages, publish_rate, size, .. } = self.options;
        Schedule::new(Instant::now() + LEAD, messages, publish_rate, size as usize)
    }

    fn work<'a>(&'a self, schedule: &'a Schedule, setup: &'a Setup) -> Work<'a> {
        Work {
            channel: self.channel.clone(),
            schedule,
            reader: &self.reader,
            published: &self.published,
            failures: &setup.failures,
        }
    }

    /// Returns when everything has arrived, or when nothing has arrived for the grace period.
    async fn wait_for_end(&self, round: &Round, schedule: &Schedule, others: &Concurrent<'_>) {
        let last_due = schedule.last_due().max(others.last_due);
        let mut look = interval(LOOK);
        let (mut progress, mut since) = (0, Instant::now());
        loop {
            let now = look.tick().await;
            let so_far = self.progress() + (others.progress)();
            if so_far != progress {
                (progress, since) = (so_far, now);
            }
            let has_all = round.is_published.get() && round.received.get() >= round.expected();
            if now >= last_due && has_all && (others.is_done)() {
                return sleep(SETTLE).await;
            }
            if now >= since.max(last_due) + self.options.grace {
                return;
            }
        }
    }
}
