//! Result of a run.

use std::fmt;

use crate::fault::FaultCounts;

/// Result of a check. An error describes the violation.
pub(crate) type Verdict = Result<(), String>;

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) invariant: &'static str,
    pub(crate) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "broken: {}\n{}", self.invariant, self.what)
    }
}

#[derive(Debug, Default)]
pub(crate) struct RunOutcome {
    pub(crate) violation: Option<Violation>,
    /// Hash of the trace.
    pub(crate) hash: u64,
    /// The last events as text, if requested.
    pub(crate) tail: Vec<String>,
    pub(crate) totals: Totals,
}

/// Counts of a run, or of all runs of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) steps: u64,
    pub(crate) deliveries: u64,
    pub(crate) published: u64,
    /// Number of lifecycle events.
    pub(crate) events: u64,
    /// Total lifetime of all sessions, in nanoseconds.
    pub(crate) session_nanos: u128,
    pub(crate) faults: FaultCounts,
}

impl Totals {
    pub(crate) fn add(&mut self, other: &Self) {
        let Self { steps, deliveries, published, events, session_nanos, faults } = other;
        self.steps += steps;
        self.deliveries += deliveries;
        self.published += published;
        self.events += events;
        self.session_nanos += session_nanos;
        self.faults.add(faults);
    }
}
