//! Failures of a run, counted by kind. The first one of each kind is logged.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::ClientFailure;
use crate::progress::ProgressLog;
use crate::record::Counter;

/// Maximum number of kinds to log. Additional kinds are only counted.
const MAX_LINES: usize = 20;

/// Failures of a run, counted by kind.
#[derive(Debug)]
pub(crate) struct Failures {
    by_kind: RefCell<BTreeMap<String, u64>>,
    count: Counter,
    report_to: FailureSink,
}

/// Where a failure is reported, in addition to the counts.
#[derive(Debug)]
enum FailureSink {
    Log(ProgressLog),
    /// Counts of the whole mix that this run is part of.
    Whole(Rc<Failures>),
}

impl Failures {
    pub(crate) fn new(log: ProgressLog) -> Rc<Self> {
        Rc::new(Self {
            by_kind: RefCell::default(),
            count: Counter::default(),
            report_to: FailureSink::Log(log),
        })
    }

    /// Creates counts for a part of a run. Failures are also recorded in `whole`.
    pub(crate) fn within(whole: &Rc<Self>) -> Rc<Self> {
        Rc::new(Self {
            by_kind: RefCell::default(),
            count: Counter::default(),
            report_to: FailureSink::Whole(Rc::clone(whole)),
        })
    }

    pub(crate) fn record(&self, failure: &ClientFailure) {
        let mut by_kind = self.by_kind.borrow_mut();
        let kind = failure.kind();
        match &self.report_to {
            FailureSink::Whole(whole) => whole.record(failure),
            FailureSink::Log(log) if !by_kind.contains_key(&kind) && by_kind.len() < MAX_LINES => {
                log.line(&format!("first error of its kind ({kind}): {failure}"));
            }
            FailureSink::Log(_) => {}
        }
        *by_kind.entry(kind).or_default() += 1;
        self.count.increment();
    }

    pub(crate) fn total(&self) -> u64 {
        self.count.get()
    }

    /// Returns the total as a live counter.
    pub(crate) fn count(&self) -> &Counter {
        &self.count
    }

    pub(crate) fn by_kind(&self) -> BTreeMap<String, u64> {
        self.by_kind.borrow().clone()
    }
}
