//! Attacks a server while a well-behaved session is measured: what does the attack cost attacker and server,
//! and does it harm that session?
//!
//! The [`healthy`] session runs on the main thread, like all other scenarios. The [`attacker`] has a separate
//! thread, so its work delays the server and not the measurement, unless both have to share a core.
//! [`attack`] has one file for each attack, and [`costs`] counts what the attack costs. A [`trial`] is one
//! attack with the quiet time before and after it. The next trial begins when the server is [`idle`].

mod attack;
mod attacker;
mod costs;
mod healthy;
mod idle;
mod trial;
mod visitor;

use std::rc::Rc;

use tokio::time::Duration;

use self::trial::Trial;
use super::{Figures, Scenario, ScenarioOutcome, ScenarioRun, Setup};
use crate::args;
use crate::progress::Bar;
use crate::record::{Counter, Recorder, Times};
use crate::result::Group;

#[derive(Debug)]
pub(crate) struct Abuse {
    options: args::AbuseOptions,
    trials: Vec<Rc<Trial>>,
    /// Number of attacks that have begun.
    begun: Counter,
    totals: HealthyTotals,
}

/// Totals of the healthy sessions over all attacks.
#[derive(Clone, Debug, Default)]
struct HealthyTotals {
    connected: Counter,
    sent: Counter,
    received: Counter,
    lost: Counter,
    doubled: Counter,
    cuts: Counter,
    latency: Times,
}

impl Scenario for Abuse {
    fn record(&self, recorder: &Recorder) {
        let HealthyTotals { sent, received, lost, doubled, cuts, latency, .. } = &self.totals;
        recorder.counters([
            ("sent", sent),
            ("received", received),
            ("lost", lost),
            ("doubled", doubled),
            ("cuts", cuts),
        ]);
        recorder.times("healthy_ms", latency);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move { self.attack(setup).await })
    }

    fn figures(&self) -> Figures {
        let phases = self.trials.iter().flat_map(|trial| trial.phases()).collect();
        Figures { phases, conditional: vec!["answers."], unmeasured: Vec::new() }
    }

    fn connected(&self) -> u64 {
        self.totals.connected.get()
    }

    fn bars(&self, _: &Setup) -> Vec<Bar> {
        vec![
            Bar { label: "attack", done: self.begun.get(), of: self.trials.len() as u64 },
            Bar { label: "received", done: self.totals.received.get(), of: self.totals.sent.get() },
        ]
    }

    /// Returns the totals, followed by each attack.
    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        let HealthyTotals { connected, sent, received, lost, doubled, cuts, .. } = &self.totals;
        let totals = Group::default()
            .with("connected", connected.get())
            .with("errors", setup.failures.total())
            .with("sent", sent.get())
            .with("received", received.get())
            .with("lost", lost.get())
            .with("doubled", doubled.get())
            .with("cuts", cuts.get());
        let each = |of: fn(&Trial) -> Group| {
            self.trials.iter().fold(Group::default(), |all, trial| all.with(trial.name(), of(trial)))
        };
        ScenarioOutcome::Single(
            totals.with("attacks", each(Trial::outcome)).with("answers", each(Trial::answers)),
        )
    }
}

impl Abuse {
    pub(crate) fn new(options: args::AbuseOptions) -> Self {
        let totals = HealthyTotals::default();
        let trials = options.attacks().into_iter().map(|attack| {
            let connections = options.connections(attack);
            Rc::new(Trial::new(attack, connections, options.kind, &totals))
        });
        Self { trials: trials.collect(), options, begun: Counter::default(), totals }
    }

    async fn attack(self: Rc<Self>, setup: Rc<Setup>) {
        let server = setup.dialer.server();
        if !server.ip().is_loopback() && !self.options.authorized {
            let why = format!("{server} is not on this machine: an attack on it needs --authorized");
            setup.refuse_if(Some(why));
            return std::future::pending().await;
        }
        let times = TrialDurations { quiet: self.options.quiet_for, attack: self.options.duration };
        for trial in &self.trials {
            self.begun.increment();
            trial.run(&setup, times).await;
            if let Some(pid) = setup.load.server.cost.pid {
                idle::wait(pid).await;
            }
        }
    }
}

/// Durations of the parts of a trial.
#[derive(Clone, Copy, Debug)]
struct TrialDurations {
    /// Quiet time before and after the attack.
    quiet: Duration,
    attack: Duration,
}
