use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::result::RunPhase;

/// Maximum number of phases. Later phases are ignored.
const MAX_PHASES: usize = 256;

/// Phases of a run. Clones, which several threads may use, share them.
#[derive(Clone, Debug)]
pub(crate) struct Phases {
    start: Instant,
    /// Name of each phase, and when it began, in seconds since the start.
    begun: Arc<Mutex<Vec<(String, f64)>>>,
}

impl Phases {
    pub(crate) fn starting_at(start: Instant) -> Self {
        Self { start, begun: Arc::default() }
    }

    /// Enters a phase when the first thread enters it.
    pub(crate) fn enter(&self, name: &str) {
        let mut begun = self.begun.lock();
        if begun.len() < MAX_PHASES && begun.iter().all(|(known, _)| known != name) {
            begun.push((name.to_owned(), self.seconds()));
        }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.begun.lock().iter().map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn all(&self) -> Vec<RunPhase> {
        let begun = self.begun.lock();
        let ends = begun.iter().skip(1).map(|(_, start)| *start).chain([self.seconds()]);
        let phase = |((name, start), end): (&(String, f64), f64)| RunPhase {
            name: name.clone(),
            start_seconds: *start,
            end_seconds: end,
            duration_seconds: ((end - start) * 1e6).round() / 1e6,
        };
        begun.iter().zip(ends).map(phase).collect()
    }

    /// Returns the seconds since the start of the run.
    pub(crate) fn seconds(&self) -> f64 {
        crate::result::seconds(self.start.elapsed())
    }
}
