//! How late the engine's answers are.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::SmallRng;

use crate::fault::Fault;
use crate::scenario::Scenario;

/// Shared with the server, which asks.
#[derive(Clone, Debug)]
pub(crate) struct EngineDelays(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    rng: SmallRng,
    late_per_mille: u32,
    /// In nanoseconds.
    longest: u64,
    drawn: u64,
}

impl EngineDelays {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let is_late = scenario.faults.allows(Fault::LateEngine);
        Self(Arc::new(Mutex::new(State {
            rng: scenario.rng(2),
            late_per_mille: if is_late { scenario.late_per_mille } else { 0 },
            longest: 2 * scenario.latest,
            drawn: 0,
        })))
    }

    /// The delay of the next answer, if it is late.
    pub(crate) fn draw(&self) -> Option<Duration> {
        let mut state = self.0.lock();
        let State { rng, late_per_mille, longest, drawn } = &mut *state;
        rng.random_ratio(*late_per_mille, 1000).then(|| {
            *drawn += 1;
            Duration::from_nanos(rng.random_range(0..*longest))
        })
    }

    /// Nothing is late any more.
    pub(crate) fn end(&self) {
        self.0.lock().late_per_mille = 0;
    }

    /// How many were late since this was last asked.
    pub(crate) fn take_drawn(&self) -> u64 {
        std::mem::take(&mut self.0.lock().drawn)
    }
}
