//! Connections that arrive at random and leave at random: an open population.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Exp};
use serde::Serialize;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::answering::Answering;
use super::connects::{Connects, ConnectsOutcome};
use super::{Attempt, Figures, OpenedConnection, Scenario, ScenarioOutcome, ScenarioRun, Setup, open};
use crate::args::{self, Lifetime};
use crate::progress::Bar;
use crate::record::{Counter, EndsOutcome, Recorder};
use crate::result::Group;

#[derive(Debug)]
pub(crate) struct Churn {
    lifetime: Lifetime,
    seed: u64,
    arrived: Counter,
    /// Number of arrivals beyond the maximum number of open connections.
    skipped: Counter,
    connected: Counter,
    /// Number of connections that closed after their lifetime.
    left: Counter,
    /// Connection attempts that have begun, and have neither succeeded nor failed.
    connecting: StageCount,
    open: StageCount,
    peak: Cell<u64>,
    /// Total time that connections were open.
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

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move { self.churn(setup).await })
    }

    fn figures(&self) -> Figures {
        Figures::of_phases(["churn"])
    }

    fn connected(&self) -> u64 {
        self.connected.get()
    }

    fn bars(&self, setup: &Setup) -> Vec<Bar> {
        vec![
            Bar { label: "open", done: self.open.now.get(), of: setup.load.connections.into() },
            Bar { label: "left", done: self.left.get(), of: self.connected.get() },
        ]
    }

    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        // Apply Little's law, if lifetimes have a mean.
        let expected = self.lifetime.mean().map(|mean| mean * setup.load.rate);
        ScenarioOutcome::Single(Group::of(&ChurnOutcome {
            arrived: self.arrived.get(),
            skipped: self.skipped.get(),
            connected: self.connected.get(),
            errors: setup.failures.total(),
            connecting_at_end: self.connecting.at_end(),
            left: self.left.get(),
            open_at_end: self.open.at_end(),
            peak_open: self.peak.get(),
            expected_open: expected,
            connection_seconds: self.connection_time.get().as_secs_f64(),
            unexpected_closes: self.answering.unexpected_closes.get(),
            pings: self.answering.pings.get(),
            connects: self.connects.outcome(),
            ends: self.answering.ends.outcome(),
        }))
    }
}

#[derive(Serialize)]
struct ChurnOutcome {
    arrived: u64,
    skipped: u64,
    connected: u64,
    errors: u64,
    connecting_at_end: u64,
    left: u64,
    open_at_end: u64,
    peak_open: u64,
    expected_open: Option<f64>,
    connection_seconds: f64,
    unexpected_closes: u64,
    pings: u64,
    #[serde(flatten)]
    connects: ConnectsOutcome,
    #[serde(flatten)]
    ends: EndsOutcome,
}

impl Churn {
    pub(crate) fn new(options: &args::ChurnOptions) -> Self {
        Self {
            lifetime: options.lifetime,
            seed: options.seed,
            arrived: Counter::default(),
            skipped: Counter::default(),
            connected: Counter::default(),
            left: Counter::default(),
            connecting: StageCount::default(),
            open: StageCount::default(),
            peak: Cell::new(0),
            connection_time: Cell::default(),
            connects: Connects::default(),
            answering: Answering::default(),
        }
    }

    /// Opens connections until the duration is over. Connections that are still open at the end are dropped
    /// and counted as open; what the server does with them later is not observed.
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
                // Count the connection from this point on, because the run may end before the task first
                // runs.
                let connecting = StageGuard::enter(self.clone(), |churn| &churn.connecting);
                present.spawn_local(self.clone().run_connection(setup.clone(), connecting, due, lifetime));
            }
        }
        sleep_until(start + setup.load.duration).await;
        present.shutdown().await;
    }

    /// Opens a connection, keeps it open for its lifetime, and closes it with a Close frame.
    async fn run_connection(
        self: Rc<Self>,
        setup: Rc<Setup>,
        connecting: StageGuard,
        due: Instant,
        lifetime: Duration,
    ) {
        let opened = open(setup.clone(), Attempt::new(0, due, None)).await;
        connecting.leave();
        let opened = match opened {
            Ok(opened) => opened,
            Err(failure) => return setup.failures.record(&failure),
        };
        self.connected.increment();
        self.connects.record(&opened);
        let present = StageGuard::enter(self.clone(), |churn| &churn.open);
        self.peak.set(self.peak.get().max(self.open.now.get()));
        let _time = ConnectionTime { total: &self.connection_time, since: Instant::now() };
        let OpenedConnection { mut connection, at, .. } = opened;
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

/// Number of connections in one stage.
#[derive(Debug, Default)]
struct StageCount {
    now: Cell<u64>,
    /// Number of connections that were dropped in this stage by the end of the run.
    cut: Cell<u64>,
}

impl StageCount {
    /// Returns the number of connections that were in this stage when the run ended. An interrupted run may
    /// already have dropped some or all of them.
    fn at_end(&self) -> u64 {
        self.now.get() + self.cut.get()
    }
}

/// Guard that counts a connection while it is in one stage. If the guard is dropped in that stage, the
/// connection counts as cut.
struct StageGuard {
    churn: Rc<Churn>,
    tally: fn(&Churn) -> &StageCount,
    is_left: bool,
}

impl StageGuard {
    fn enter(churn: Rc<Churn>, tally: fn(&Churn) -> &StageCount) -> Self {
        tally(&churn).now.update(|now| now + 1);
        Self { churn, tally, is_left: false }
    }

    fn leave(mut self) {
        self.is_left = true;
    }
}

impl Drop for StageGuard {
    fn drop(&mut self) {
        let tally = (self.tally)(&self.churn);
        tally.now.update(|now| now - 1);
        if !self.is_left {
            tally.cut.update(|cut| cut + 1);
        }
    }
}

/// Guard that measures how long a connection is open, and adds the time to a total.
struct ConnectionTime<'a> {
    total: &'a Cell<Duration>,
    since: Instant,
}

impl Drop for ConnectionTime<'_> {
    fn drop(&mut self) {
        self.total.update(|total| total + self.since.elapsed());
    }
}
