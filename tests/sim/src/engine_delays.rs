//! Random delays of the engine's responses.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::SmallRng;

use crate::fault::Fault;
use crate::scenario::Scenario;

/// Source of delays, shared with the server.
#[derive(Clone, Debug)]
pub(crate) struct EngineDelays(Arc<Mutex<DelayState>>);

#[derive(Debug)]
struct DelayState {
    rng: SmallRng,
    late_per_mille: u32,
    /// Upper bound of a delay, in nanoseconds.
    longest: u64,
    delay_count: u64,
}

impl EngineDelays {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let is_late = scenario.faults.allows(Fault::LateEngine);
        Self(Arc::new(Mutex::new(DelayState {
            rng: scenario.rng(2),
            late_per_mille: if is_late { scenario.late_per_mille } else { 0 },
            longest: 2 * scenario.latest,
            delay_count: 0,
        })))
    }

    /// Draws the delay of the next response. `None` if it is immediate.
    pub(crate) fn next_delay(&self) -> Option<Duration> {
        let mut state = self.0.lock();
        let DelayState { rng, late_per_mille, longest, delay_count } = &mut *state;
        rng.random_ratio(*late_per_mille, 1000).then(|| {
            *delay_count += 1;
            Duration::from_nanos(rng.random_range(0..*longest))
        })
    }

    /// Makes all later responses immediate.
    pub(crate) fn end(&self) {
        self.0.lock().late_per_mille = 0;
    }

    /// Returns the number of delays drawn since the last call.
    pub(crate) fn take_delay_count(&self) -> u64 {
        std::mem::take(&mut self.0.lock().delay_count)
    }
}
