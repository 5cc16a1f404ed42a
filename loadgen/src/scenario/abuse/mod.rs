//! Attack a server, beside one session that does nothing wrong: what the attack costs whom, and whether that session is harmed.
//!
//! The [`healthy`] session runs where all other scenarios do. The [`attacker`] has a thread of its own, so that what it does delays the
//! server and not the measurement, unless both have to share a core. [`attack`] has one file for each attack, and [`bill`] what it
//! paid. A [`trial`] is one attack, and the quiet before and after it. The next one begins when the server is [`idle`].

mod attack;
mod attacker;
mod bill;
mod healthy;
mod idle;
mod trial;
mod visitor;

use std::rc::Rc;

use tokio::time::Duration;

use self::trial::Trial;
use super::{Figures, Outcome, Run, Scenario, Setup};
use crate::args;
use crate::progress::Bar;
use crate::record::{Counter, Recorder, Times};
use crate::result::Group;

#[derive(Debug)]
pub(crate) struct Abuse {
    options: args::Abuse,
    trials: Vec<Rc<Trial>>,
    /// Attacks that have begun.
    begun: Counter,
    totals: Totals,
}

/// Of the healthy sessions beside all attacks.
#[derive(Clone, Debug, Default)]
struct Totals {
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
        let Totals { sent, received, lost, doubled, cuts, latency, .. } = &self.totals;
        recorder.counters([
            ("sent", sent),
            ("received", received),
            ("lost", lost),
            ("doubled", doubled),
            ("cuts", cuts),
        ]);
        recorder.times("healthy_ms", latency);
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> Run {
        Box::pin(async move { self.attack(setup).await })
    }

    fn figures(&self) -> Figures {
        let phases = self.trials.iter().flat_map(|trial| trial.phases()).collect();
        Figures { phases, later: vec!["answers."], never: Vec::new() }
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

    /// The sums, then each attack.
    fn outcome(&self, setup: &Setup) -> Outcome {
        let Totals { connected, sent, received, lost, doubled, cuts, .. } = &self.totals;
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
        Outcome::Single(totals.with("attacks", each(Trial::outcome)).with("answers", each(Trial::answers)))
    }
}

impl Abuse {
    pub(crate) fn new(options: args::Abuse) -> Self {
        let totals = Totals::default();
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
        let times = Lengths { quiet: self.options.quiet_for, attack: self.options.duration };
        for trial in &self.trials {
            self.begun.increment();
            trial.run(&setup, times).await;
            if let Some(pid) = setup.load.server.cost.pid {
                idle::wait(pid).await;
            }
        }
    }
}

/// How long the parts of a trial take.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    /// Before the attack, and after it.
    quiet: Duration,
    attack: Duration,
}
