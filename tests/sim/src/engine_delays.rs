//! Random delays of the engine's responses.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::SmallRng;

use crate::fault::Fault;
use crate::scenario::Scenario;

/// Source of delays, shared with the server.
#[derive(Debug)]
pub(crate) struct EngineDelays {
    rng: SmallRng,
    late_per_mille: u32,
    /// Upper bound of a delay, in nanoseconds.
    longest: u64,
    /// Number of delays not yet counted as faults.
    pub(crate) uncounted: u64,
}

impl EngineDelays {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let late_per_mille =
            if scenario.faults.allows(Fault::LateEngine) { scenario.late_per_mille } else { 0 };
        Self { rng: scenario.rng(2), late_per_mille, longest: 2 * scenario.latest, uncounted: 0 }
    }

    /// Draws the delay of the next response. `None` if it is immediate.
    pub(crate) fn next_delay(&mut self) -> Option<Duration> {
        self.rng.random_ratio(self.late_per_mille, 1000).then(|| {
            self.uncounted += 1;
            Duration::from_nanos(self.rng.random_range(0..self.longest))
        })
    }

    /// Makes all later responses immediate.
    pub(crate) fn end(&mut self) {
        self.late_per_mille = 0;
    }
}
