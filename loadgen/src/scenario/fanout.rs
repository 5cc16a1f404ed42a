//! Publishes to a channel that all connections subscribe to, and counts deliveries. If requested, disconnects
//! all subscribers while messages are published.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::channel::{
    ConcurrentWork, ConnectionsOutcome, PublishRound, Subscriber, SubscriberGroup, SubscribersOutcome,
};
use super::{Figures, OpenedConnection, Scenario, ScenarioOutcome, ScenarioRun, Setup};
use crate::args;
use crate::client::ClientConnection;
use crate::client::ClientFailure;
use crate::progress::Bar;
use crate::record::{Counter, Latency, Recorder};
use crate::result::{Distribution, Group, seconds};

#[derive(Debug)]
pub(crate) struct Fanout {
    cut_after: Option<Duration>,
    subscribers: SubscriberGroup,
    dropped: Counter,
    resumed: Counter,
    not_recovered: Counter,
    /// Number of disconnected subscribers that could not reconnect.
    gone: Counter,
    /// Time from the disconnect to the last hello with `recovered`.
    took: Cell<Option<Duration>>,
    resume: Latency,
}

/// Signal with the time at which all connections are dropped.
type CutSignal = watch::Receiver<Option<Instant>>;

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

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move { self.publish(setup).await })
    }

    fn figures(&self) -> Figures {
        match self.cut_after {
            Some(_) => Figures::of_phases(["subscribe", "publish", "resume"]),
            None => Figures::of_phases(["subscribe", "publish"]).with_unmeasured(vec![
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

    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        ScenarioOutcome::Single(Group::of(&FanoutOutcome {
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
    pub(crate) fn new(options: args::FanoutOptions) -> Self {
        Self {
            cut_after: options.cut_after,
            subscribers: SubscriberGroup::new(options.channel_load),
            dropped: Counter::default(),
            resumed: Counter::default(),
            not_recovered: Counter::default(),
            gone: Counter::default(),
            took: Cell::new(None),
            resume: Latency::default(),
        }
    }

    async fn publish(self: Rc<Self>, setup: Rc<Setup>) {
        let round = Rc::<PublishRound>::default();
        let cut = watch::Sender::new(None);
        let mut subscribers = JoinSet::new();
        self.subscribers
            .connect_all(&setup, &round, |opened| {
                subscribers.spawn_local(self.clone().run_subscriber(
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
        let others = |round: &PublishRound| {
            let start = round.start().unwrap_or_else(Instant::now);
            let cut_at = self.cut_after.map(|after| start + after);
            let others =
                ConcurrentWork { last_due: cut_at.unwrap_or(start), progress: &progress, is_done: &is_done };
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

    /// Returns the number of disconnected subscribers that have reconnected, or have failed to.
    fn returned(&self) -> u64 {
        self.resumed.get() + self.not_recovered.get() + self.gone.get()
    }

    /// Runs one subscriber.
    async fn run_subscriber(
        self: Rc<Self>,
        setup: Rc<Setup>,
        round: Rc<PublishRound>,
        opened: OpenedConnection,
        mut cut: CutSignal,
    ) {
        let OpenedConnection { mut connection, greeting, .. } = opened;
        if !self.subscribers.join(&setup, &round, &mut connection, true).await {
            return;
        }
        let mut subscriber = Subscriber::new(greeting.ticket, true);
        // `changed` cannot fail: the sender lives as long as the scenario.
        tokio::select! {
            biased;
            _ = cut.changed() => drop(connection),
            end = self.subscribers.listen(&round, &mut connection, &mut subscriber) => {
                return self.subscribers.answering.record_close(end);
            }
        }
        self.dropped.increment();
        let cut_at = cut.borrow().unwrap_or_else(Instant::now);
        // Boxed because a task is as large as its largest state, for as long as it lives.
        match Box::pin(self.resume_or_subscribe(&mut subscriber, cut_at, &setup)).await {
            Some(mut connection) => {
                let end = self.subscribers.listen(&round, &mut connection, &mut subscriber).await;
                self.subscribers.answering.record_close(end);
            }
            None => self.gone.increment(),
        }
    }

    /// Resumes the session, or subscribes in the new session if the old one was not recovered.
    async fn resume_or_subscribe(
        &self,
        subscriber: &mut Subscriber,
        cut_at: Instant,
        setup: &Setup,
    ) -> Option<ClientConnection> {
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
        setup.failures.record(&ClientFailure::NotRecovered);
        subscriber.begin_session(greeting.ticket);
        if !self.subscribers.subscribe(&mut connection, setup).await {
            return None;
        }
        self.not_recovered.increment();
        Some(connection)
    }
}
