//! Publish to a channel that all connections subscribe to, cut them all meanwhile if asked to, and count.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::channel::{Concurrent, ConnectionsOutcome, Round, Subscriber, Subscribers, SubscribersOutcome};
use super::{Figures, Opened, Outcome, Run, Scenario, Setup};
use crate::args;
use crate::client::Connection;
use crate::client::Failure;
use crate::progress::Bar;
use crate::record::{Counter, Latency, Recorder};
use crate::result::{Distribution, Group, seconds};

#[derive(Debug)]
pub(crate) struct Fanout {
    cut_after: Option<Duration>,
    subscribers: Subscribers,
    dropped: Counter,
    resumed: Counter,
    not_recovered: Counter,
    /// Cut subscribers that could not connect any more.
    gone: Counter,
    /// From the cut to the last hello that said `recovered`.
    took: Cell<Option<Duration>>,
    resume: Latency,
}

/// When all connections were cut.
type Cut = watch::Receiver<Option<Instant>>;

impl Scenario for Fanout {
    fn record(&self, recorder: &Recorder) {
        for (name, counter) in
            [("dropped", &self.dropped), ("resumed", &self.resumed), ("not_recovered", &self.not_recovered)]
        {
            recorder.counter(name, counter);
        }
        self.subscribers.register(recorder);
        recorder.latency("resume", &self.resume);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> Run {
        Box::pin(async move { self.publish(setup).await })
    }

    fn figures(&self) -> Figures {
        match self.cut_after {
            Some(_) => Figures::of_phases(["subscribe", "publish", "resume"]),
            None => Figures::of_phases(["subscribe", "publish"]).with_never(vec![
                "all_back_seconds",
                "resume_ms.",
                "resume_from_start_ms.",
            ]),
        }
    }

    fn connected(&self) -> u64 {
        self.subscribers.connected.get()
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        let resumed = Bar { label: "resumed", done: self.resumed.get(), of: self.dropped.get() };
        let mut bars = self.subscribers.bars(setup);
        bars.push(resumed);
        bars
    }

    fn outcome(&self, setup: &Setup) -> Outcome {
        Outcome::Single(Group::of(&FanoutOutcome {
            subscribers: self.subscribers.outcome(setup),
            dropped: self.dropped.get(),
            resumed: self.resumed.get(),
            not_recovered: self.not_recovered.get(),
            all_back_seconds: self.took.get().map(seconds),
            resume_ms: self.resume.since_due(),
            resume_from_start_ms: self.resume.since_start(),
            connections: self.subscribers.connections(),
        }))
    }
}

#[derive(Serialize)]
struct FanoutOutcome {
    #[serde(flatten)]
    subscribers: SubscribersOutcome,
    dropped: u64,
    resumed: u64,
    not_recovered: u64,
    all_back_seconds: Option<f64>,
    resume_ms: Distribution,
    resume_from_start_ms: Distribution,
    #[serde(flatten)]
    connections: ConnectionsOutcome,
}

impl Fanout {
    pub(crate) fn new(options: args::Fanout) -> Self {
        Self {
            cut_after: options.cut_after,
            subscribers: Subscribers::new(options.channel_load),
            dropped: Counter::default(),
            resumed: Counter::default(),
            not_recovered: Counter::default(),
            gone: Counter::default(),
            took: Cell::new(None),
            resume: Latency::default(),
        }
    }

    async fn publish(self: Rc<Self>, setup: Rc<Setup>) {
        let round = Rc::<Round>::default();
        let cut = watch::Sender::new(None);
        let mut subscribers = JoinSet::new();
        self.subscribers
            .connect_all(&setup, &round, |opened| {
                subscribers.spawn_local(self.clone().follow(
                    setup.clone(),
                    round.clone(),
                    opened,
                    cut.subscribe(),
                ));
            })
            .await;
        let progress = || self.returned();
        let is_done = || self.returned() == self.dropped.get();
        let (cut, recorder) = (&cut, &setup.recorder);
        let others = |round: &Round| {
            let start = round.start().unwrap_or_else(Instant::now);
            let cut_at = self.cut_after.map(|after| start + after);
            let others =
                Concurrent { last_due: cut_at.unwrap_or(start), progress: &progress, is_done: &is_done };
            let cut = async move {
                if let Some(at) = cut_at {
                    sleep_until(at).await;
                    recorder.phase("resume");
                    cut.send_replace(Some(Instant::now()));
                }
            };
            (others, cut)
        };
        self.subscribers.publish_and_wait(&setup, &round, others).await;
    }

    /// How many of the cut ones are back, or have failed to be.
    fn returned(&self) -> u64 {
        self.resumed.get() + self.not_recovered.get() + self.gone.get()
    }

    /// The life of one subscriber.
    async fn follow(self: Rc<Self>, setup: Rc<Setup>, round: Rc<Round>, opened: Opened, mut cut: Cut) {
        let Opened { mut connection, greeting, .. } = opened;
        if !self.subscribers.join(&setup, &round, &mut connection, true).await {
            return;
        }
        let mut subscriber = Subscriber::new(greeting.ticket, true);
        // The sender lives as long as the scenario does.
        tokio::select! {
            biased;
            _ = cut.changed() => drop(connection),
            end = self.subscribers.listen(&round, &mut connection, &mut subscriber) => {
                return self.subscribers.answering.record_close(end);
            }
        }
        self.dropped.increment();
        let cut_at = cut.borrow().unwrap_or_else(Instant::now);
        // Boxed, for a task is as large as what it may hold at once, for all its life.
        match Box::pin(self.come_back(&mut subscriber, cut_at, &setup)).await {
            Some(mut connection) => {
                let end = self.subscribers.listen(&round, &mut connection, &mut subscriber).await;
                self.subscribers.answering.record_close(end);
            }
            None => self.gone.increment(),
        }
    }

    /// Comes back to the session, or else subscribes in the new one.
    async fn come_back(
        &self,
        subscriber: &mut Subscriber,
        cut_at: Instant,
        setup: &Setup,
    ) -> Option<Connection> {
        let start = Instant::now();
        let opened = setup.dialer.open(Some(&subscriber.ticket)).await;
        let (mut connection, greeting) = opened.map_err(|failure| setup.failures.record(&failure)).ok()?;
        self.resume.record(cut_at, start, Instant::now());
        if greeting.recovered {
            self.subscribers.check_greeting(subscriber, &greeting);
            self.resumed.increment();
            self.took.set(self.took.get().max(Some(cut_at.elapsed())));
            return Some(connection);
        }
        setup.failures.record(&Failure::NotRecovered);
        subscriber.begin(greeting.ticket);
        if !self.subscribers.subscribe(&mut connection, setup).await {
            return None;
        }
        self.not_recovered.increment();
        Some(connection)
    }
}
