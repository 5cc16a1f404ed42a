//! Publishes to all subscribers and waits until everything has arrived.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::{Instant, interval, sleep};

use super::SubscriberGroup;
use crate::args;
use crate::scenario::Setup;
use crate::scenario::channel::publisher::{ChannelPublisher, PublishJob};
use crate::scenario::channel::round::PublishRound;
use crate::scenario::channel::schedule::Schedule;

/// Time from the last subscription to the first message.
const LEAD: Duration = Duration::from_millis(100);
/// How often to check whether the round is over.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// How long to keep reading after everything has arrived: duplicates arrive late.
const SETTLE: Duration = Duration::from_millis(200);

/// Work that a scenario does while messages are published.
pub(crate) struct ConcurrentWork<'a> {
    /// When the last step of the work is due.
    pub(crate) last_due: Instant,
    /// Returns a number that changes while the work makes progress.
    pub(crate) progress: &'a dyn Fn() -> u64,
    pub(crate) is_done: &'a dyn Fn() -> bool,
}

impl SubscriberGroup {
    /// Publishes all messages of a schedule. Returns when everything has arrived, or when nothing has arrived
    /// for the grace period. `others` is called once the schedule is known; the future that it returns runs
    /// concurrently.
    pub(crate) async fn publish_and_wait<'a, F: Future<Output = ()>>(
        &self,
        setup: &Rc<Setup>,
        round: &PublishRound,
        others: impl FnOnce(&PublishRound) -> (ConcurrentWork<'a>, F),
    ) {
        if round.subscribed.get() == 0 {
            return;
        }
        let publisher = match ChannelPublisher::open(&self.options, setup).await {
            Ok(publisher) => publisher,
            Err(failure) => return setup.failures.record(&failure),
        };
        setup.recorder.phase("publish");
        let schedule = round.schedule.get_or_init(|| self.new_schedule());
        let (others, beside) = others(round);
        let publish = async {
            publisher.run(self.new_job(schedule, setup)).await;
            round.is_published.set(true);
        };
        tokio::select! {
            () = self.wait_for_end(round, schedule, &others) => {}
            ((), ()) = async { tokio::join!(publish, beside) } => {
                self.wait_for_end(round, schedule, &others).await;
            }
        }
        // Remove the round, so that the next round does not count it again.
        self.rounds.take();
        self.tally.add(round);
    }

    fn new_schedule(&self) -> Schedule {
        let args::ChannelLoad { messages, publish_rate, size, .. } = self.options;
        Schedule::new(Instant::now() + LEAD, messages, publish_rate, size as usize)
    }

    fn new_job<'a>(&'a self, schedule: &'a Schedule, setup: &'a Setup) -> PublishJob<'a> {
        PublishJob {
            channel: self.channel.clone(),
            schedule,
            reader: &self.reader,
            published: &self.published,
            failures: &setup.failures,
        }
    }

    /// Returns when everything has arrived, or when nothing has arrived for the grace period.
    async fn wait_for_end(&self, round: &PublishRound, schedule: &Schedule, others: &ConcurrentWork<'_>) {
        let last_due = schedule.last_due().max(others.last_due);
        let mut look = interval(CHECK_INTERVAL);
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
