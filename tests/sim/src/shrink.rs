//! A smaller scenario that fails in the same way: without the classes of faults that are not needed, with fewer clients,
//! and with the end of all faults as early as possible.

use crate::campaign::simulate;
use crate::scenario::Scenario;
use crate::world::{Outcome, Violation};

/// Runs that may be spent.
const TRIES: u32 = 120;

/// What was found: the smallest scenario, what became of it, and how it differs.
pub(crate) struct Shrunk {
    pub(crate) scenario: Scenario,
    pub(crate) outcome: Outcome,
}

struct Search {
    invariant: &'static str,
    tries: u32,
    best: Shrunk,
}

/// Shrinks a scenario that fails.
pub(crate) fn shrink(scenario: Scenario, outcome: Outcome, violation: &Violation) -> Shrunk {
    let mut search = Search { invariant: violation.invariant, tries: 0, best: Shrunk { scenario, outcome } };
    search.without_faults();
    search.with_fewer_clients();
    search.with_fewer_steps();
    search.without_faults();
    // Once more, to have its trace in words.
    search.best.outcome = simulate(search.best.scenario.clone(), true);
    search.best
}

impl Search {
    /// Keeps `scenario` if it fails in the same way.
    fn keeps(&mut self, scenario: Scenario) -> bool {
        if self.tries >= TRIES {
            return false;
        }
        self.tries += 1;
        let outcome = simulate(scenario.clone(), false);
        let fails = outcome.violation.as_ref().is_some_and(|it| it.invariant == self.invariant);
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
            self.keeps(scenario);
        }
    }

    fn with_fewer_clients(&mut self) {
        while self.best.scenario.clients > 1 {
            let clients = self.best.scenario.clients;
            let fewer = [clients / 2, clients - 1];
            let found = fewer.into_iter().any(|clients| {
                let mut scenario = self.best.scenario.clone();
                scenario.clients = clients;
                self.keeps(scenario)
            });
            if !found {
                return;
            }
        }
    }

    /// Bisects for the first step after which nothing needs to go wrong.
    fn with_fewer_steps(&mut self) {
        let (mut fails_not, mut fails) = (0, self.best.outcome.steps + 1);
        while fails - fails_not > 1 + fails / 64 {
            let middle = fails_not + (fails - fails_not) / 2;
            let mut scenario = self.best.scenario.clone();
            scenario.calm_after_steps = middle;
            if self.keeps(scenario) {
                fails = middle;
            } else {
                fails_not = middle;
            }
        }
    }
}
