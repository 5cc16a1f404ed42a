//! Runs many scenarios on several threads, and reports totals.

use std::cell::RefCell;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::outcome::{RunOutcome, Totals, Violation};
use crate::scenario::{Scenario, ScenarioKind};
use crate::shrink::{Shrunk, shrink};
use crate::world::Simulation;

thread_local! {
    /// First panic on this thread during the current scenario, even if it was caught.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Limits of one scenario.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Maximum number of steps with faults. `None`: unlimited.
    pub(crate) steps: Option<u64>,
    /// Whether to shrink a failing scenario.
    pub(crate) shrinks: bool,
}

impl Bounds {
    fn scenario(self, seed: u64) -> Scenario {
        let mut scenario = Scenario::of(seed);
        scenario.calm_after_steps = self.steps.unwrap_or(u64::MAX);
        scenario
    }
}

/// Records panics instead of printing them: a panic is a violation even if the server catches it.
pub(crate) fn record_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let what = format!("{} at {place}", info.payload_as_str().unwrap_or("a panic"));
        PANIC.with(|panic| panic.borrow_mut().get_or_insert(what).len());
    }));
}

/// Runs a scenario. A panic is a violation, even if the server caught it.
pub(crate) fn simulate(scenario: Scenario, in_words: bool) -> RunOutcome {
    PANIC.with(|panic| panic.borrow_mut().take());
    let result = catch_unwind(AssertUnwindSafe(|| Simulation::new(scenario, in_words).run()));
    let panic = PANIC.with(|panic| panic.borrow_mut().take());
    let mut outcome = result.unwrap_or_default();
    if let Some(what) = panic {
        outcome.violation = Some(Violation { invariant: "no panic", what });
    }
    outcome
}

#[derive(Debug, Default)]
struct CampaignTotals {
    by_kind: [u64; 3],
    totals: Totals,
}

impl CampaignTotals {
    fn add(&mut self, kind: ScenarioKind, outcome: &RunOutcome) {
        self.by_kind[kind as usize] += 1;
        self.totals.add(&outcome.totals);
    }

    #[expect(clippy::print_stdout, reason = "output of the command")]
    fn print(&self) {
        let Totals { steps, deliveries, published, events, session_nanos, faults } = &self.totals;
        let [dense, sparse, still] = self.by_kind;
        println!("{} scenarios ({dense} dense, {sparse} sparse, {still} still)", dense + sparse + still);
        let hours = session_nanos / 3_600_000_000_000;
        println!("{hours} session-hours, {steps} steps, {} faults", faults.total());
        println!("{published} messages published, {deliveries} delivered, {events} lifecycle events");
        let faults: Vec<_> = faults.each().map(|(fault, count)| format!("{fault:?} {count}")).collect();
        println!("faults: {}", faults.join(", "));
    }
}

/// Runs the scenarios of these seeds until `length` has passed or one fails.
#[expect(clippy::print_stdout, reason = "output of the command")]
pub(crate) fn run(seeds: Range<u64>, length: Duration, jobs: usize, bounds: Bounds) -> ExitCode {
    println!("seeds from {} on", seeds.start);
    let (seeds, stop) = (Mutex::new(seeds), AtomicBool::new(false));
    let totals = Mutex::new(CampaignTotals::default());
    let failed = Mutex::new(None);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) && started.elapsed() < length {
                    let Some(seed) = seeds.lock().next() else { break };
                    let scenario = bounds.scenario(seed);
                    let outcome = simulate(scenario.clone(), false);
                    totals.lock().add(scenario.kind, &outcome);
                    if outcome.violation.is_some() {
                        stop.store(true, Ordering::Relaxed);
                        failed.lock().get_or_insert((scenario, outcome));
                    }
                }
            });
        }
    });
    let took = started.elapsed();
    let totals = totals.into_inner();
    totals.print();
    #[expect(clippy::cast_precision_loss, reason = "for display only")]
    let rate = totals.totals.steps as f64 / took.as_secs_f64();
    println!("{:.1} s, {rate:.0} steps a second", took.as_secs_f64());
    match failed.into_inner() {
        None => {
            println!("every invariant holds");
            ExitCode::SUCCESS
        }
        Some((scenario, outcome)) => report(scenario, outcome, bounds),
    }
}

/// Runs the scenario of one seed, and reports the result.
#[expect(clippy::print_stdout, reason = "output of the command")]
pub(crate) fn run_seed(seed: u64, bounds: Bounds) -> ExitCode {
    let scenario = bounds.scenario(seed);
    let outcome = simulate(scenario.clone(), true);
    let mut totals = CampaignTotals::default();
    totals.add(scenario.kind, &outcome);
    totals.print();
    println!("trace {:016x}", outcome.hash);
    if outcome.violation.is_none() {
        println!("every invariant holds");
        return ExitCode::SUCCESS;
    }
    report(scenario, outcome, bounds)
}

#[expect(clippy::print_stdout, reason = "output of the command")]
fn report(scenario: Scenario, outcome: RunOutcome, bounds: Bounds) -> ExitCode {
    let Some(violation) = outcome.violation.clone() else { return ExitCode::SUCCESS };
    println!("\nseed {} fails after {} steps", scenario.seed, outcome.totals.steps);
    println!("{violation}");
    // Only builds without optimisation have debug assertions, which may be what failed.
    let release = if cfg!(debug_assertions) { "" } else { " --release" };
    let steps = bounds.steps.map_or_else(String::new, |steps| format!(" --steps {steps}"));
    println!("reproduce: cargo run{release} -p encke-sim -- --seed {}{steps}", scenario.seed);
    if !bounds.shrinks {
        outcome.tail.iter().for_each(|line| println!("{line}"));
        return ExitCode::FAILURE;
    }
    let Shrunk { scenario, outcome } = shrink(simulate, scenario, outcome, &violation);
    let Scenario { kind, clients, .. } = &scenario;
    println!("\nshrunk: {kind:?}, {clients} clients, {} steps", outcome.totals.steps);
    let faults: Vec<_> = scenario.faults.iter().map(|fault| format!("{fault:?}")).collect();
    let until = match scenario.calm_after_steps {
        u64::MAX => "until the end".to_owned(),
        calm => format!("until step {calm}"),
    };
    println!("faults, {until}: {}", faults.join(", "));
    outcome.tail.iter().for_each(|line| println!("{line}"));
    if let Some(violation) = &outcome.violation {
        println!("{violation}");
    }
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a scenario short enough for an unoptimised build.
    fn short(seed: u64) -> Scenario {
        let mut scenario = Scenario::of(seed);
        scenario.clients = scenario.clients.min(5);
        scenario.length = scenario.length.min(5_000_000_000);
        scenario
    }

    #[test]
    fn seed_replays_exactly() {
        let run = |seed| {
            let RunOutcome { violation, hash, totals, .. } = simulate(short(seed), false);
            assert_eq!(violation, None, "seed {seed}");
            (hash, totals)
        };
        let runs: Vec<_> = (1..6).map(run).collect();
        assert_eq!(runs, (1..6).map(run).collect::<Vec<_>>());
        assert!(runs.windows(2).all(|two| two[0].0 != two[1].0), "{runs:?}");
    }
}
