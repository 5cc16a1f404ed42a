//! Counters of a scenario. Tasks share them; all run on one thread, so plain cells do.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::report::Group;
use crate::websocket::End;

#[derive(Debug, Default)]
pub(crate) struct Counter(Cell<u64>);

impl Counter {
    pub(crate) fn increment(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.set(self.0.get() + count);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }
}

/// How connections ended.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    by_code: RefCell<BTreeMap<u16, u64>>,
    faults: RefCell<BTreeMap<&'static str, u64>>,
}

impl Ends {
    pub(crate) fn record(&self, end: End) {
        *self.by_code.borrow_mut().entry(end.code()).or_default() += 1;
        if let End::Fault(fault) = end {
            *self.faults.borrow_mut().entry(fault.name()).or_default() += 1;
        }
    }

    /// `close_codes`, and what the server did wrong if it was to blame.
    pub(crate) fn outcome(&self) -> Group {
        Group::default()
            .with("close_codes", self.by_code.borrow().clone())
            .with("frame_faults", self.faults.borrow().clone())
    }
}
