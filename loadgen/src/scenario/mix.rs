//! Phases that run one after the other, each with several scenarios that run simultaneously.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::{Scenario, Setup, create};
use crate::args::{Load, MixOptions, PhaseKind, PlannedPhase};
use crate::failures::Failures;
use crate::progress::ProgressLog;
use crate::record::{Counter, Highest, Metrics};
use crate::result::path_name;

/// Duration of the runs in a ramp, longer than any practical plan. Their connections are dropped when the plan
/// ends.
const RAMP_DURATION: Duration = Duration::from_secs(30 * 24 * 3600);

pub(crate) struct Mix {
    phases: Vec<MixPhase>,
}

struct MixPhase {
    phase: PlannedPhase,
    runs: Vec<Rc<MixRun>>,
    duration_seconds: Highest,
}

struct MixRun {
    load: Load,
    scenario: Scenario,
    failures: Failures,
    times: Counter,
}

impl Mix {
    pub(super) fn new(options: &MixOptions, metrics: &Metrics) -> Self {
        let phases = options.plan.phases.iter().map(|phase| MixPhase::new(phase, options, metrics));
        Self { phases: phases.collect() }
    }

    pub(super) async fn run(self: Rc<Self>, setup: Rc<Setup>) {
        // The connections of ramps are dropped together with this set.
        let mut staying = JoinSet::new();
        for stage in &self.phases {
            setup.enter_phase(&stage.phase.name);
            stage.execute(&setup, &mut staying).await;
        }
    }
}

impl MixPhase {
    fn new(phase: &PlannedPhase, options: &MixOptions, metrics: &Metrics) -> Self {
        let metrics = metrics.within(&format!("plan.{}", path_name(&phase.name)));
        metrics.value("kind", <&str>::from(phase.kind));
        let duration_seconds = metrics.highest("duration_seconds");
        let runs = phase.runs.iter().map(|run| {
            let mut scenario = run.scenario.clone();
            scenario.server_mut().target = options.server.target;
            let mut load = scenario.load();
            load.server = options.server.clone();
            if phase.kind == PhaseKind::Ramp {
                load.duration = RAMP_DURATION;
            }
            let metrics = metrics.within(&format!("runs.{}", path_name(&run.name)));
            metrics.value("scenario", scenario.name());
            Rc::new(MixRun {
                load,
                times: metrics.counter("times"),
                failures: Failures::new(&metrics, &ProgressLog::default()),
                scenario: create(&scenario, &metrics),
            })
        });
        Self { runs: runs.collect(), phase: phase.clone(), duration_seconds }
    }

    /// Runs for the phase's duration, and until its runs are over, because interrupting a run would look like
    /// message loss.
    async fn execute(&self, mix: &Rc<Setup>, staying: &mut JoinSet<()>) {
        let start = Instant::now();
        let end = start + self.phase.duration;
        let mut running = JoinSet::new();
        for run in &self.runs {
            let (load, failures) = (run.load.clone(), run.failures.clone());
            let setup = Rc::new(Setup { load, failures, phases: None, ..Setup::clone(mix) });
            let (run, kind) = (Rc::clone(run), self.phase.kind);
            let tasks = if kind == PhaseKind::Ramp { &mut *staying } else { &mut running };
            tasks.spawn_local(async move {
                run.execute(&setup).await;
                while kind == PhaseKind::Soak && Instant::now() < end {
                    run.execute(&setup).await;
                }
            });
        }
        running.join_all().await;
        sleep_until(end).await;
        self.duration_seconds.record(start.elapsed().as_secs_f64());
    }
}

impl MixRun {
    async fn execute(&self, setup: &Rc<Setup>) {
        self.times.increment();
        (self.scenario)(Rc::clone(setup)).await;
    }
}
