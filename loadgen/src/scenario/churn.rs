//! Arrive at random and leave at random: an open population.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Exp};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::answering::Answering;
use super::connects::Connects;
use super::{Attempt, Opened, Run, Scenario, Setup, open};
use crate::args::{self, Lifetime};
use crate::progress::Bar;
use crate::record::{Counter, Recorder};
use crate::result::Group;

#[derive(Debug)]
pub(crate) struct Churn {
    lifetime: Lifetime,
    seed: u64,
    arrived: Counter,
    /// Arrivals beyond the most that may be open.
    skipped: Counter,
    connected: Counter,
    /// Left when their time was over.
    left: Counter,
    open: Cell<u64>,
    peak: Cell<u64>,
    /// Connections times how long each was open.
    connection_time: Cell<Duration>,
    connects: Connects,
    answering: Answering,
}

impl Scenario for Churn {
    fn record(&self, recorder: &Recorder) {
        recorder.counters([
            ("arrived", &self.arrived),
            ("skipped", &self.skipped),
            ("left", &self.left),
            ("unexpected_closes", &self.answering.unexpected_closes),
        ]);
        self.connects.register(recorder);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> Run {
        Box::pin(async move { self.churn(setup).await })
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        vec![
            Bar { label: "open", done: self.open.get(), of: setup.load.connections.into() },
            Bar { label: "left", done: self.left.get(), of: self.connected.get() },
        ]
    }

    fn outcome(&self, setup: &Setup) -> Group {
        // Little's law, where lifetimes have a mean.
        let expected = self.lifetime.mean().map(|mean| mean * setup.load.rate);
        Group::default()
            .with("arrived", self.arrived.get())
            .with("skipped", self.skipped.get())
            .with("connected", self.connected.get())
            .with("errors", setup.failures.total())
            .with("left", self.left.get())
            .with("peak_open", self.peak.get())
            .with("expected_open", expected)
            .with("connection_seconds", self.connection_time.get().as_secs_f64())
            .with("unexpected_closes", self.answering.unexpected_closes.get())
            .with("pings", self.answering.pings.get())
            .and(self.connects.outcome())
            .and(self.answering.ends.outcome())
    }
}

impl Churn {
    pub(crate) fn new(options: &args::Churn) -> Self {
        Self {
            lifetime: options.lifetime,
            seed: options.seed,
            arrived: Counter::default(),
            skipped: Counter::default(),
            connected: Counter::default(),
            left: Counter::default(),
            open: Cell::new(0),
            peak: Cell::new(0),
            connection_time: Cell::default(),
            connects: Connects::default(),
            answering: Answering::default(),
        }
    }

    /// Whoever is still there when the last one has arrived is dropped.
    async fn churn(self: Rc<Self>, setup: Rc<Setup>) {
        let Ok(between) = Exp::new(setup.load.rate) else { return };
        let mut rng = SmallRng::seed_from_u64(self.seed);
        setup.recorder.phase("churn");
        let start = Instant::now();
        let mut present = JoinSet::new();
        let mut due = start;
        loop {
            due += Duration::from_secs_f64(between.sample(&mut rng));
            if due > start + setup.load.duration {
                break;
            }
            sleep_until(due).await;
            while present.try_join_next().is_some() {}
            self.arrived.increment();
            let lifetime = self.lifetime.sample(&mut rng);
            if present.len() >= setup.load.connections as usize {
                self.skipped.increment();
            } else {
                present.spawn_local(self.clone().live(setup.clone(), due, lifetime));
            }
        }
        sleep_until(start + setup.load.duration).await;
        present.shutdown().await;
        self.open.set(0);
    }

    /// Comes, stays and leaves, with a Close frame.
    async fn live(self: Rc<Self>, setup: Rc<Setup>, due: Instant, lifetime: Duration) {
        let opened = match open(setup.clone(), Attempt::new(0, due, None)).await {
            Ok(opened) => opened,
            Err(failure) => return setup.failures.record(&failure),
        };
        self.connected.increment();
        self.connects.record(&opened);
        let _present = Presence::new(&self);
        let Opened { mut connection, at, .. } = opened;
        let time_is_over = tokio::select! {
            biased;
            () = self.answering.answer(&mut connection, |_| {}) => false,
            () = sleep_until(at + lifetime) => true,
        };
        if time_is_over {
            connection.close().await;
            self.left.increment();
        }
    }
}

/// Counts a connection for as long as it is there.
struct Presence<'a> {
    churn: &'a Churn,
    since: Instant,
}

impl<'a> Presence<'a> {
    fn new(churn: &'a Churn) -> Self {
        churn.open.set(churn.open.get() + 1);
        churn.peak.set(churn.peak.get().max(churn.open.get()));
        Self { churn, since: Instant::now() }
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        self.churn.open.set(self.churn.open.get().saturating_sub(1));
        self.churn.connection_time.set(self.churn.connection_time.get() + self.since.elapsed());
    }
}
