//! Drops connections at random while messages are published, and resumes within the reconnect window or after
//! it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::channel::{
    ConcurrentWork, ConnectionsOutcome, PublishRound, Subscriber, SubscriberGroup, SubscribersOutcome,
};
use super::connects::{Resumes, ResumesOutcome};
use super::spread::is_chosen;
use super::window::{WindowOutcome, WindowReturns};
use super::{Attempt, Figures, OpenedConnection, Scenario, ScenarioOutcome, ScenarioRun, Setup, open};
use crate::args;
use crate::client::ClientConnection;
use crate::progress::Bar;
use crate::record::{Counter, Recorder};
use crate::result::Group;

#[derive(Debug)]
pub(crate) struct Resume {
    options: args::ResumeOptions,
    subscribers: SubscriberGroup,
    rng: RefCell<SmallRng>,
    /// Longest reconnect window in any hello.
    longest_window: Cell<Duration>,
    cut: Counter,
    /// Number of disconnected subscribers that could not reconnect or subscribe again.
    gone: Counter,
    window: WindowReturns,
    resumes: Resumes,
}

/// When the first and the last message are due.
type PublishWindow = (Instant, Instant);

impl Scenario for Resume {
    fn record(&self, recorder: &Recorder) {
        recorder.counter("cut", &self.cut);
        recorder.counter("gone", &self.gone);
        self.subscribers.register(recorder);
        self.window.register(recorder);
        self.resumes.register(recorder);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move { self.publish(setup).await })
    }

    fn figures(&self) -> Figures {
        Figures::of_phases(["subscribe", "publish"])
    }

    fn connected(&self) -> u64 {
        self.subscribers.connected.get()
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        let mut bars = self.subscribers.bars(setup);
        bars.push(Bar { label: "returned", done: self.returned(), of: self.cut.get() });
        bars
    }

    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        ScenarioOutcome::Single(Group::of(&ResumeOutcome {
            subscribers: self.subscribers.outcome(setup),
            cut: self.cut.get(),
            window: self.window.outcome(),
            gone: self.gone.get(),
            resumes: self.resumes.outcome(),
            connections: self.subscribers.connections(),
        }))
    }
}

#[derive(Serialize)]
struct ResumeOutcome {
    #[serde(flatten)]
    subscribers: SubscribersOutcome,
    cut: u64,
    #[serde(flatten)]
    window: WindowOutcome,
    gone: u64,
    #[serde(flatten)]
    resumes: ResumesOutcome,
    #[serde(flatten)]
    connections: ConnectionsOutcome,
}

impl Resume {
    pub(crate) fn new(options: args::ResumeOptions) -> Self {
        Self {
            subscribers: SubscriberGroup::new(options.channel_load.clone()),
            rng: RefCell::new(SmallRng::seed_from_u64(options.seed)),
            options,
            longest_window: Cell::default(),
            cut: Counter::default(),
            gone: Counter::default(),
            window: WindowReturns::default(),
            resumes: Resumes::default(),
        }
    }

    async fn publish(self: Rc<Self>, setup: Rc<Setup>) {
        let round = Rc::<PublishRound>::default();
        let span = watch::Sender::new(None);
        let mut subscribers = JoinSet::new();
        self.subscribers
            .connect_all(&setup, &round, |opened| {
                self.longest_window.set(self.longest_window.get().max(opened.greeting.reconnect_window));
                let task =
                    self.clone().run_subscriber(setup.clone(), round.clone(), opened, span.subscribe());
                subscribers.spawn_local(task);
            })
            .await;
        let progress = || self.returned() + self.cut.get();
        let is_done = || self.returned() == self.cut.get();
        let others = |round: &PublishRound| {
            let now = Instant::now();
            let (start, end) = (round.start().unwrap_or(now), round.last_due().unwrap_or(now));
            span.send_replace(Some((start, end)));
            let last_due = self.last_return(start, end);
            (ConcurrentWork { last_due, progress: &progress, is_done: &is_done }, std::future::ready(()))
        };
        self.subscribers.publish_and_wait(&setup, &round, others).await;
    }

    /// Returns the time at which the last disconnected client reconnects.
    fn last_return(&self, start: Instant, end: Instant) -> Instant {
        let inside = end + self.options.away;
        let outside = start + (end - start) / 2 + self.longest_window.get() + self.options.margin;
        if self.options.outside > 0.0 { inside.max(outside) } else { inside }
    }

    fn returned(&self) -> u64 {
        self.window.returned() + self.gone.get()
    }

    /// Returns when a subscriber disconnects, and how long it stays disconnected each time.
    fn disconnects(
        &self,
        is_outside: bool,
        window: Duration,
        (start, end): PublishWindow,
    ) -> Vec<(Instant, Duration)> {
        let mut rng = self.rng.borrow_mut();
        let span = end - start;
        if is_outside {
            let at = start + span.mul_f64(rng.random_range(0.0..0.5));
            return vec![(at, window + self.options.margin)];
        }
        let longest = self.options.away.min(window.saturating_sub(self.options.margin));
        let mut cuts: Vec<_> = (0..self.options.cuts)
            .map(|_| {
                let at = start + span.mul_f64(rng.random_range(0.0..1.0));
                (at, longest.mul_f64(rng.random_range(0.0..1.0)))
            })
            .collect();
        cuts.sort();
        cuts
    }

    async fn run_subscriber(
        self: Rc<Self>,
        setup: Rc<Setup>,
        round: Rc<PublishRound>,
        opened: OpenedConnection,
        mut span: watch::Receiver<Option<PublishWindow>>,
    ) {
        let OpenedConnection { index, mut connection, greeting, .. } = opened;
        let is_outside = is_chosen(index, self.options.outside);
        if !self.subscribers.join(&setup, &round, &mut connection, !is_outside).await {
            return;
        }
        let mut subscriber = Subscriber::new(greeting.ticket, !is_outside);
        tokio::select! {
            biased;
            _ = span.changed() => {}
            end = self.subscribers.listen(&round, &mut connection, &mut subscriber) => {
                return self.subscribers.answering.record_close(end);
            }
        }
        let Some(span) = *span.borrow() else { return };
        let window = greeting.reconnect_window;
        for (cut_at, away) in self.disconnects(is_outside, window, span) {
            tokio::select! {
                biased;
                () = sleep_until(cut_at) => drop(connection),
                end = self.subscribers.listen(&round, &mut connection, &mut subscriber) => {
                    return self.subscribers.answering.record_close(end);
                }
            }
            self.cut.increment();
            let lost_at = Instant::now();
            sleep_until(lost_at + away).await;
            // Boxed because a task is as large as its largest state, for as long as it lives.
            let back =
                Box::pin(self.resume_or_subscribe(&setup, &mut subscriber, lost_at, away, window)).await;
            let Some(back) = back else { return self.gone.increment() };
            connection = back;
        }
        let end = self.subscribers.listen(&round, &mut connection, &mut subscriber).await;
        self.subscribers.answering.record_close(end);
    }

    /// Resumes the session, or subscribes in the new session if the old one was not recovered.
    async fn resume_or_subscribe(
        &self,
        setup: &Rc<Setup>,
        subscriber: &mut Subscriber,
        lost_at: Instant,
        away: Duration,
        window: Duration,
    ) -> Option<ClientConnection> {
        let attempt = Attempt::new(0, lost_at + away, Some(subscriber.ticket.clone()));
        let opened = open(setup.clone(), attempt).await;
        let opened = opened.map_err(|failure| setup.failures.record(&failure)).ok()?;
        self.resumes.record(&opened);
        self.window.record_return(lost_at, window, &opened);
        let OpenedConnection { mut connection, greeting, .. } = opened;
        if greeting.recovered {
            self.subscribers.check_greeting(subscriber, &greeting);
        } else {
            subscriber.begin_session(greeting.ticket);
            if !self.subscribers.subscribe(&mut connection, setup).await {
                return None;
            }
        }
        Some(connection)
    }
}
