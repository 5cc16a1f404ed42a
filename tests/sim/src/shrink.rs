//! Shrinks a failing scenario to a smaller one that violates the same invariant: removes classes of faults,
//! reduces the number of clients, and ends all faults as early as possible.

use crate::outcome::{RunOutcome, Violation};
use crate::scenario::Scenario;

/// Maximum number of runs.
const MAX_RUNS: u32 = 120;

/// The smallest scenario found, and its outcome.
pub(crate) struct Shrunk {
    pub(crate) scenario: Scenario,
    pub(crate) outcome: RunOutcome,
}

struct Search<R> {
    run: R,
    invariant: &'static str,
    runs: u32,
    best: Shrunk,
}

/// Shrinks a scenario that fails in `run`, whose second argument enables the text of the trace.
pub(crate) fn shrink(
    run: impl Fn(Scenario, bool) -> RunOutcome,
    scenario: Scenario,
    outcome: RunOutcome,
    violation: &Violation,
) -> Shrunk {
    let best = Shrunk { scenario, outcome };
    let mut search = Search { run, invariant: violation.invariant, runs: 0, best };
    search.without_faults();
    search.with_fewer_clients();
    search.with_fewer_steps();
    search.without_faults();
    // Run the scenario again, to record the trace as text.
    search.best.outcome = (search.run)(search.best.scenario.clone(), true);
    search.best
}

impl<R: Fn(Scenario, bool) -> RunOutcome> Search<R> {
    /// Runs `scenario`, and keeps it if it violates the same invariant and takes no more steps. With fewer
    /// faults, a failure may take longer to occur.
    fn keep_if_failing(&mut self, scenario: Scenario) -> bool {
        if self.runs >= MAX_RUNS {
            return false;
        }
        self.runs += 1;
        let outcome = (self.run)(scenario.clone(), false);
        let fails = outcome.violation.as_ref().is_some_and(|it| it.invariant == self.invariant)
            && outcome.totals.steps <= self.best.outcome.totals.steps;
        if fails {
            self.best = Shrunk { scenario, outcome };
        }
        fails
    }

    fn without_faults(&mut self) {
        let faults = self.best.scenario.faults;
        for fault in faults.iter() {
            let mut scenario = self.best.scenario.clone();
            scenario.faults = scenario.faults.without(fault);
            self.keep_if_failing(scenario);
        }
    }

    fn with_fewer_clients(&mut self) {
        while self.best.scenario.clients > 1 {
            let clients = self.best.scenario.clients;
            let fewer = [clients / 2, clients - 1];
            let found = fewer.into_iter().any(|clients| {
                let mut scenario = self.best.scenario.clone();
                scenario.clients = clients;
                self.keep_if_failing(scenario)
            });
            if !found {
                return;
            }
        }
    }

    /// Bisects for the first step after which no fault is needed.
    fn with_fewer_steps(&mut self) {
        let (mut fails_not, mut fails) = (0, self.best.outcome.totals.steps + 1);
        while fails - fails_not > 1 + fails / 64 {
            let middle = fails_not + (fails - fails_not) / 2;
            let mut scenario = self.best.scenario.clone();
            scenario.calm_after_steps = middle;
            if self.keep_if_failing(scenario) {
                fails = middle;
            } else {
                fails_not = middle;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray;

    use super::*;
    use crate::fault::{Fault, Faults};
    use crate::outcome::Totals;

    #[test]
    fn unneeded_faults_and_clients_are_removed() {
        let violation = Violation { invariant: "one", what: String::new() };
        let run = |scenario: Scenario, _| {
            let needed = [Fault::Cut, Fault::Stall].iter().all(|fault| scenario.faults.allows(*fault));
            let fails = needed && scenario.clients >= 3 && scenario.calm_after_steps >= 1000;
            let violation = fails.then(|| violation.clone());
            RunOutcome {
                violation,
                totals: Totals { steps: 5000, ..Totals::default() },
                ..RunOutcome::default()
            }
        };
        let mut scenario = Scenario::of(1);
        scenario.clients = 14;
        scenario.faults = Fault::VARIANTS.iter().copied().fold(Faults::default(), Faults::with);
        let shrunk = shrink(run, scenario.clone(), run(scenario, false), &violation);
        let faults: Vec<_> = shrunk.scenario.faults.iter().collect();
        assert_eq!(faults, [Fault::Cut, Fault::Stall]);
        assert_eq!(shrunk.scenario.clients, 3);
        assert!((1000..1050).contains(&shrunk.scenario.calm_after_steps));
        assert_eq!(shrunk.outcome.violation, Some(violation));
    }
}
