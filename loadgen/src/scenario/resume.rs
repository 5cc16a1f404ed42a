//! Loses connections at random while messages are published, and resumes within the reconnect window or after it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::channel::{Concurrent, ConnectionsOutcome, Round, Subscriber, Subscribers, SubscribersOutcome};
use super::connects::{Resumes, ResumesOutcome};
use super::spread::is_chosen;
use super::window::{Window, WindowOutcome};
use super::{Attempt, Figures, Opened, Outcome, Run, Scenario, Setup, open};
use crate::args;
use crate::client::Connection;
use crate::progress::Bar;
use crate::record::{Counter, Recorder};
use crate::result::Group;

#[derive(Debug)]
pub(crate) struct Resume {
    options: args::Resume,
    subscribers: Subscribers,
    rng: RefCell<SmallRng>,
    /// The longest reconnect window of all hellos.
    longest_window: Cell<Duration>,
    cut: Counter,
    /// Cut subscribers that could not connect or subscribe again.
    gone: Counter,
    window: Window,
    resumes: Resumes,
}

/// From when the first message is due to when the last one is.
type Span = (Instant, Instant);

impl Scenario for Resume {
    fn record(&self, recorder: &Recorder) {
        recorder.counter("cut", &self.cut);
        recorder.counter("gone", &self.gone);
        self.subscribers.register(recorder);
        self.window.register(recorder);
        self.resumes.register(recorder);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> Run {
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

    fn outcome(&self, setup: &Setup) -> Outcome {
        Outcome::Single(Group::of(&ResumeOutcome {
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
    pub(crate) fn new(options: args::Resume) -> Self {
        Self {
            subscribers: Subscribers::new(options.channel_load.clone()),
            rng: RefCell::new(SmallRng::seed_from_u64(options.seed)),
            options,
            longest_window: Cell::default(),
            cut: Counter::default(),
            gone: Counter::default(),
            window: Window::default(),
            resumes: Resumes::default(),
        }
    }

    async fn publish(self: Rc<Self>, setup: Rc<Setup>) {
        let round = Rc::<Round>::default();
        let span = watch::Sender::new(None);
        let mut subscribers = JoinSet::new();
        self.subscribers
            .connect_all(&setup, &round, |opened| {
                self.longest_window.set(self.longest_window.get().max(opened.greeting.reconnect_window));
                let life = self.clone().live(setup.clone(), round.clone(), opened, span.subscribe());
                subscribers.spawn_local(life);
            })
            .await;
        let progress = || self.returned() + self.cut.get();
        let is_done = || self.returned() == self.cut.get();
        let others = |round: &Round| {
            let now = Instant::now();
            let (start, end) = (round.start().unwrap_or(now), round.last_due().unwrap_or(now));
            span.send_replace(Some((start, end)));
            let last_due = self.last_return(start, end);
            (Concurrent { last_due, progress: &progress, is_done: &is_done }, std::future::ready(()))
        };
        self.subscribers.publish_and_wait(&setup, &round, others).await;
    }

    /// When the last cut client comes back.
    fn last_return(&self, start: Instant, end: Instant) -> Instant {
        let inside = end + self.options.away;
        let outside = start + (end - start) / 2 + self.longest_window.get() + self.options.margin;
        if self.options.outside > 0.0 { inside.max(outside) } else { inside }
    }

    fn returned(&self) -> u64 {
        self.window.returned() + self.gone.get()
    }

    /// When a subscriber is cut, and how long it stays away each time.
    fn absences(&self, is_outside: bool, window: Duration, (start, end): Span) -> Vec<(Instant, Duration)> {
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

    async fn live(
        self: Rc<Self>,
        setup: Rc<Setup>,
        round: Rc<Round>,
        opened: Opened,
        mut span: watch::Receiver<Option<Span>>,
    ) {
        let Opened { index, mut connection, greeting, .. } = opened;
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
        for (cut_at, away) in self.absences(is_outside, window, span) {
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
            // Boxed, for a task is as large as what it may hold at once, for all its life.
            let back = Box::pin(self.come_back(&setup, &mut subscriber, lost_at, away, window)).await;
            let Some(back) = back else { return self.gone.increment() };
            connection = back;
        }
        let end = self.subscribers.listen(&round, &mut connection, &mut subscriber).await;
        self.subscribers.answering.record_close(end);
    }

    /// Comes back to the session, or else subscribes in the new one.
    async fn come_back(
        &self,
        setup: &Rc<Setup>,
        subscriber: &mut Subscriber,
        lost_at: Instant,
        away: Duration,
        window: Duration,
    ) -> Option<Connection> {
        let attempt = Attempt::new(0, lost_at + away, Some(subscriber.ticket.clone()));
        let opened = open(setup.clone(), attempt).await;
        let opened = opened.map_err(|failure| setup.failures.record(&failure)).ok()?;
        self.resumes.record(&opened);
        self.window.came_back(lost_at, window, &opened);
        let Opened { mut connection, greeting, .. } = opened;
        if greeting.recovered {
            self.subscribers.check_greeting(subscriber, &greeting);
        } else {
            subscriber.begin(greeting.ticket);
            if !self.subscribers.subscribe(&mut connection, setup).await {
                return None;
            }
        }
        Some(connection)
    }
}
