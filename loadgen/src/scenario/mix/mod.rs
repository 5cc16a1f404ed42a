//! Phases that run one after the other, each with several scenarios that run simultaneously.

mod totals;

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use self::totals::MixTotals;
use super::{Figures, Prepared, Scenario, ScenarioOutcome, ScenarioRun, Setup, prepare};
use crate::args::{self, PhaseKind, PlannedPhase};
use crate::client::Failures;
use crate::progress::Bar;
use crate::record::{Counter, Recorder};
use crate::result::{Group, seconds};

/// Duration of the runs in a ramp. The plan always ends earlier.
const RAMP_DURATION: Duration = Duration::from_secs(30 * 24 * 3600);

pub(crate) struct Mix {
    phases: Vec<MixPhase>,
    /// Number of phases that have begun.
    begun: Counter,
}

/// A phase and its runs.
struct MixPhase {
    phase: PlannedPhase,
    runs: Vec<Rc<MixRun>>,
    took: Cell<Option<Duration>>,
}

/// A scenario within a phase.
struct MixRun {
    name: String,
    prepared: Prepared,
    /// Set when the run first starts.
    setup: OnceCell<Rc<Setup>>,
    times: Counter,
}

impl Scenario for Mix {
    /// Registers all runs under the same names, so that the curves show their sums.
    fn record(&self, recorder: &Recorder) {
        for run in self.runs() {
            run.prepared.scenario.record(recorder);
        }
    }

    fn run(self: Rc<Self>, setup: Rc<Setup>) -> ScenarioRun {
        Box::pin(async move { self.execute(setup).await })
    }

    fn figures(&self) -> Figures {
        let mut later: Vec<_> =
            self.runs().flat_map(|run| run.prepared.scenario.figures().conditional).collect();
        later.sort_unstable();
        later.dedup();
        let phases = self.phases.iter().map(|stage| stage.phase.name.clone()).collect();
        Figures { phases, conditional: later, unmeasured: Vec::new() }
    }

    fn connected(&self) -> u64 {
        self.runs().map(|run| run.prepared.scenario.connected()).sum()
    }

    fn bars(&self, _: &Setup) -> Vec<Bar> {
        vec![
            Bar { label: "phase", done: self.begun.get(), of: self.phases.len() as u64 },
            Bar { label: "connected", done: self.connected(), of: 0 },
        ]
    }

    /// Returns the totals of all runs, followed by each phase.
    fn outcome(&self, setup: &Setup) -> ScenarioOutcome {
        let outcomes: Vec<_> = self.runs().map(|run| run.outcome(setup)).collect();
        let totals = Group::of(&MixTotals::of(&outcomes, setup.failures.total()));
        let mut outcomes = outcomes.into_iter();
        let phases = self.phases.iter().fold(Group::default(), |phases, stage| {
            phases.with(&path_name(&stage.phase.name), stage.outcome(&mut outcomes))
        });
        ScenarioOutcome::Single(totals.with("plan", phases))
    }
}

impl Mix {
    pub(crate) fn new(options: &args::MixOptions) -> Self {
        let phases = options.plan.phases.iter().map(|phase| MixPhase::new(phase.clone(), options));
        Self { phases: phases.collect(), begun: Counter::default() }
    }

    async fn execute(self: Rc<Self>, setup: Rc<Setup>) {
        if let Some(why) = self.first_objection(&setup).await {
            setup.refusal.refuse(why);
            return std::future::pending().await;
        }
        // The connections of ramps are dropped together with this set.
        let mut staying = JoinSet::new();
        for stage in &self.phases {
            self.begun.increment();
            setup.recorder.phase(&stage.phase.name);
            stage.execute(&setup, &mut staying).await;
        }
    }

    /// Returns the first objection that any run would raise when it starts, so that the objection is reported
    /// before anything starts. Requests a hello from the server if necessary.
    async fn first_objection(&self, setup: &Setup) -> Option<String> {
        let stages = self.phases.iter().flat_map(|stage| stage.runs.iter().map(move |run| (stage, run)));
        let objecting =
            stages.filter_map(|(stage, run)| Some((stage, run, run.prepared.scenario.objection()?)));
        let objecting: Vec<_> = objecting.collect();
        if objecting.is_empty() {
            return None;
        }
        // Without a hello there is no objection: the runs report the failure.
        let hello = setup.dialer.fetch_greeting().await.ok()?;
        objecting.into_iter().find_map(|(stage, run, objection)| {
            let why = objection(&run.prepared.load, &hello)?;
            Some(format!("phase {:?}, run {:?}: {why}", stage.phase.name, run.name))
        })
    }

    /// Returns the runs of all phases, in order.
    fn runs(&self) -> impl Iterator<Item = &MixRun> {
        self.phases.iter().flat_map(|stage| &stage.runs).map(Rc::as_ref)
    }
}

impl MixPhase {
    fn new(phase: PlannedPhase, options: &args::MixOptions) -> Self {
        let runs = phase.runs.iter().map(|run| {
            let mut prepared = prepare(&run.scenario);
            prepared.load.server = options.server.clone();
            if phase.kind == PhaseKind::Ramp {
                prepared.load.duration = RAMP_DURATION;
            }
            let (setup, times) = (OnceCell::new(), Counter::default());
            Rc::new(MixRun { name: run.name.clone(), prepared, setup, times })
        });
        Self { runs: runs.collect(), phase, took: Cell::new(None) }
    }

    /// Runs for the phase's duration, and until its runs are over, because interrupting a run would look like
    /// message loss.
    async fn execute(&self, setup: &Rc<Setup>, staying: &mut JoinSet<()>) {
        let start = Instant::now();
        let end = start + self.phase.duration;
        let mut running = JoinSet::new();
        for run in &self.runs {
            let run = Rc::clone(run);
            run.setup.get_or_init(|| Rc::new(run.setup_within(setup)));
            match self.phase.kind {
                PhaseKind::Ramp => drop(staying.spawn_local(async move { run.execute().await })),
                PhaseKind::Hold | PhaseKind::Spike => {
                    drop(running.spawn_local(async move { run.execute().await }))
                }
                PhaseKind::Soak => drop(running.spawn_local(async move {
                    while Instant::now() < end {
                        run.execute().await;
                    }
                })),
            }
        }
        running.join_all().await;
        sleep_until(end).await;
        self.took.set(Some(start.elapsed()));
    }

    /// Returns the outcome of the phase. The next items of `outcomes` belong to its runs.
    fn outcome(&self, outcomes: impl Iterator<Item = Group>) -> Group {
        let runs = self.runs.iter().zip(outcomes).fold(Group::default(), |runs, (run, outcome)| {
            let outcome = Group::default()
                .with("scenario", run.prepared.name)
                .and(run.prepared.header.clone())
                .with("times", run.times.get())
                .and(outcome);
            runs.with(&path_name(&run.name), outcome)
        });
        Group::default()
            .with("kind", <&str>::from(self.phase.kind))
            .with("duration_seconds", self.took.get().map(seconds))
            .with("runs", runs)
    }
}

impl MixRun {
    /// Creates a setup with the same server and log, and separate counters.
    fn setup_within(&self, mix: &Setup) -> Setup {
        Setup {
            load: self.prepared.load.clone(),
            dialer: Rc::clone(&mix.dialer),
            failures: Failures::within(&mix.failures),
            recorder: mix.recorder.within("plan"),
            refusal: mix.refusal.clone(),
        }
    }

    async fn execute(&self) {
        if let Some(setup) = self.setup.get() {
            self.times.increment();
            Rc::clone(&self.prepared.scenario).run(Rc::clone(setup)).await;
        }
    }

    /// Returns the outcome of the run, which is empty before the run has started.
    fn outcome(&self, mix: &Setup) -> Group {
        let outcome = match self.setup.get() {
            Some(setup) => self.prepared.scenario.outcome(setup),
            None => self.prepared.scenario.outcome(&self.setup_within(mix)),
        };
        outcome.to_group()
    }
}

/// Replaces the characters that cannot be part of a path in the result.
fn path_name(name: &str) -> String {
    name.chars().map(|char| if char.is_ascii_alphanumeric() { char } else { '_' }).collect()
}
