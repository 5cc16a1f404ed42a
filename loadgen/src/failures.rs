//! Failures of a run, counted by kind. The first one of each kind is logged.

use encke_client::ClientFailure;

use crate::progress::ProgressLog;
use crate::record::{Counter, Counts, Metrics};

/// Maximum number of kinds to log. Additional kinds are only counted.
const MAX_LINES: usize = 20;

/// Failures of a run. Clones share the counts.
#[derive(Clone, Debug)]
pub(crate) struct Failures {
    count: Counter,
    kinds: Counts,
    log: ProgressLog,
}

impl Failures {
    pub(crate) fn new(metrics: &Metrics, log: &ProgressLog) -> Self {
        Self { count: metrics.counter("errors"), kinds: metrics.counts("error_kinds"), log: log.clone() }
    }

    pub(crate) fn record(&self, failure: &ClientFailure) {
        self.count.increment();
        let kind = failure.kind();
        if self.kinds.increment(&kind) == 1 && self.kinds.get().len() <= MAX_LINES {
            self.log.line(&format!("first error of its kind ({kind}): {failure}"));
        }
    }
}
