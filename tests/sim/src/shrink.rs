//! A smaller scenario that fails in the same way: without the classes of faults that are not needed, with fewer clients,
//! and with the end of all faults as early as possible.

use crate::scenario::Scenario;
use crate::world::{Outcome, Violation};

/// Runs that may be spent.
const TRIES: u32 = 120;

/// The smallest scenario that was found, and what became of it.
pub(crate) struct Shrunk {
    pub(crate) scenario: Scenario,
    pub(crate) outcome: Outcome,
}

struct Search<R> {
    run: R,
    invariant: &'static str,
    tries: u32,
    best: Shrunk,
}

/// Shrinks a scenario that fails when it is `run`. The second argument of that is whether the trace is kept in words.
pub(crate) fn shrink(
    run: impl Fn(Scenario, bool) -> Outcome,
    scenario: Scenario,
    outcome: Outcome,
    violation: &Violation,
) -> Shrunk {
    let best = Shrunk { scenario, outcome };
    let mut search = Search { run, invariant: violation.invariant, tries: 0, best };
    search.without_faults();
    search.with_fewer_clients();
    search.with_fewer_steps();
    search.without_faults();
    // Once more, to have its trace in words.
    search.best.outcome = (search.run)(search.best.scenario.clone(), true);
    search.best
}

impl<R: Fn(Scenario, bool) -> Outcome> Search<R> {
    /// Keeps `scenario` if it fails in the same way, and no later: fewer faults may take longer to bring it about.
    fn keeps(&mut self, scenario: Scenario) -> bool {
        if self.tries >= TRIES {
            return false;
        }
        self.tries += 1;
        let outcome = (self.run)(scenario.clone(), false);
        let fails = outcome.violation.as_ref().is_some_and(|it| it.invariant == self.invariant)
            && outcome.steps <= self.best.outcome.steps;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Fault, Faults};

    #[test]
    fn what_is_not_needed_is_taken_away() {
        let violation = Violation { invariant: "one", what: String::new() };
        let run = |scenario: Scenario, _| {
            let needed = [Fault::Cut, Fault::Stall].iter().all(|fault| scenario.faults.allows(*fault));
            let fails = needed && scenario.clients >= 3 && scenario.calm_after_steps >= 1000;
            Outcome { violation: fails.then(|| violation.clone()), steps: 5000, ..Outcome::default() }
        };
        let mut scenario = Scenario::of(1);
        scenario.clients = 14;
        scenario.faults = Fault::ALL.into_iter().fold(Faults::default(), Faults::with);
        let shrunk = shrink(run, scenario.clone(), run(scenario, false), &violation);
        let faults: Vec<_> = shrunk.scenario.faults.iter().collect();
        assert_eq!(faults, [Fault::Cut, Fault::Stall]);
        assert_eq!(shrunk.scenario.clients, 3);
        assert!((1000..1050).contains(&shrunk.scenario.calm_after_steps));
        assert_eq!(shrunk.outcome.violation, Some(violation));
    }
}
