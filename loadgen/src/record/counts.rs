//! Counters of a scenario. Tasks share them; all run on one thread, so plain cells do.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::result::{Highest, Level, Total, summed};
use crate::transport::websocket::End;

/// A number that only grows. A clone is the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter(Rc<Cell<u64>>);

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

/// A measured number that comes and goes. A clone is the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge {
    value: Rc<Cell<Value>>,
    is_highest: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Value {
    last: Option<f64>,
    was_sampled: bool,
}

impl Gauge {
    /// Of several processes, the highest value counts, not the sum.
    pub(crate) fn highest() -> Self {
        Self { is_highest: true, ..Self::default() }
    }

    /// `None` where it could not be measured.
    pub(crate) fn set(&self, value: Option<f64>) {
        self.value.set(Value { last: value, was_sampled: false });
    }

    /// Sets it to the highest value since the last sample.
    pub(crate) fn raise(&self, value: Option<f64>) {
        let Value { last, was_sampled } = self.value.get();
        self.set(if was_sampled { value } else { last.into_iter().chain(value).reduce(f64::max) });
    }

    /// Its value in a sample that is taken now.
    pub(super) fn level(&self) -> Level {
        let Value { last: value, .. } = self.value.get();
        self.value.set(Value { last: value, was_sampled: true });
        if self.is_highest { Level::Highest(value.map(Highest)) } else { Level::Total(value.map(Total)) }
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

    pub(super) fn by_code(&self) -> BTreeMap<u16, u64> {
        self.by_code.borrow().clone()
    }

    /// How many connections ended because the server's frames were bad.
    pub(super) fn faults(&self) -> u64 {
        self.faults.borrow().values().sum()
    }

    pub(crate) fn outcome(&self) -> EndsOutcome {
        let faults = self.faults.borrow();
        EndsOutcome {
            close_codes: self.by_code().into_iter().map(|(code, count)| (code.to_string(), count)).collect(),
            frame_faults: faults.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        }
    }
}

summed! {
    pub(crate) struct EndsOutcome {
        close_codes: BTreeMap<String, u64>,
        /// What the server did wrong, if it was to blame.
        frame_faults: BTreeMap<String, u64>,
    }
}
