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
    /// Begun, and neither open nor failed yet.
    connecting: Cell<u64>,
    open: Cell<u64>,
    /// Dropped by the end of the run while they were connecting or open.
    cut_connecting: Cell<u64>,
    cut_open: Cell<u64>,
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
            .with("connecting_at_end", self.connecting.get() + self.cut_connecting.get())
            .with("left", self.left.get())
            .with("open_at_end", self.open.get() + self.cut_open.get())
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
            connecting: Cell::default(),
            open: Cell::default(),
            cut_connecting: Cell::default(),
            cut_open: Cell::default(),
            peak: Cell::new(0),
            connection_time: Cell::default(),
            connects: Connects::default(),
            answering: Answering::default(),
        }
    }

    /// Connections that are still there when the time is over are dropped, and counted as such: what the server does to them later is
    /// not seen.
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
    }

    /// Comes, stays and leaves, with a Close frame.
    async fn live(self: Rc<Self>, setup: Rc<Setup>, due: Instant, lifetime: Duration) {
        let connecting = Stage::enter(&self.connecting, &self.cut_connecting);
        let opened = open(setup.clone(), Attempt::new(0, due, None)).await;
        connecting.leave();
        let opened = match opened {
            Ok(opened) => opened,
            Err(failure) => return setup.failures.record(&failure),
        };
        self.connected.increment();
        self.connects.record(&opened);
        let present = Stage::enter(&self.open, &self.cut_open);
        self.peak.set(self.peak.get().max(self.open.get()));
        let _time = ConnectionTime { total: &self.connection_time, since: Instant::now() };
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
        present.leave();
    }
}

/// Counts a connection while it is at one stage; if its task is dropped meanwhile, it counts as cut.
struct Stage<'a> {
    now: &'a Cell<u64>,
    cut: &'a Cell<u64>,
    is_left: bool,
}

impl<'a> Stage<'a> {
    fn enter(now: &'a Cell<u64>, cut: &'a Cell<u64>) -> Self {
        now.update(|now| now + 1);
        Self { now, cut, is_left: false }
    }

    fn leave(mut self) {
        self.is_left = true;
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.now.update(|now| now - 1);
        if !self.is_left {
            self.cut.update(|cut| cut + 1);
        }
    }
}

/// Adds up how long connections were open.
struct ConnectionTime<'a> {
    total: &'a Cell<Duration>,
    since: Instant,
}

impl Drop for ConnectionTime<'_> {
    fn drop(&mut self) {
        self.total.update(|total| total + self.since.elapsed());
    }
}
