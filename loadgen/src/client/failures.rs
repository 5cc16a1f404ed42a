//! All failures of a run: counted by kind; the first of each kind is logged.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::Failure;
use crate::progress::Log;
use crate::record::Counter;

/// More kinds than these are counted, but not logged.
const MAX_LINES: usize = 20;

/// All failures of a run.
#[derive(Debug)]
pub(crate) struct Failures {
    by_kind: RefCell<BTreeMap<String, u64>>,
    count: Counter,
    report_to: ReportTo,
}

/// Where a failure goes beside the counts.
#[derive(Debug)]
enum ReportTo {
    Log(Log),
    /// To those of the whole, of which these are a part.
    Whole(Rc<Failures>),
}

impl Failures {
    pub(crate) fn new(log: Log) -> Rc<Self> {
        Rc::new(Self {
            by_kind: RefCell::default(),
            count: Counter::default(),
            report_to: ReportTo::Log(log),
        })
    }

    /// Failures that count by themselves, and for the whole as well.
    pub(crate) fn within(whole: &Rc<Self>) -> Rc<Self> {
        Rc::new(Self {
            by_kind: RefCell::default(),
            count: Counter::default(),
            report_to: ReportTo::Whole(Rc::clone(whole)),
        })
    }

    pub(crate) fn record(&self, failure: &Failure) {
        let mut by_kind = self.by_kind.borrow_mut();
        let kind = failure.kind();
        match &self.report_to {
            ReportTo::Whole(whole) => whole.record(failure),
            ReportTo::Log(log) if !by_kind.contains_key(&kind) && by_kind.len() < MAX_LINES => {
                log.line(&format!("first error of its kind ({kind}): {failure}"));
            }
            ReportTo::Log(_) => {}
        }
        *by_kind.entry(kind).or_default() += 1;
        self.count.increment();
    }

    pub(crate) fn total(&self) -> u64 {
        self.count.get()
    }

    /// The total as a live counter.
    pub(crate) fn count(&self) -> &Counter {
        &self.count
    }

    pub(crate) fn by_kind(&self) -> BTreeMap<String, u64> {
        self.by_kind.borrow().clone()
    }
}
