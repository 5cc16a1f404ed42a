//! Counters and gauges of a scenario. All tasks run on one thread, so plain cells suffice to share the
//! values.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::result::{Highest, Level, Total, summed};
use crate::transport::websocket::ConnectionEnd;

/// A count that only grows. Clones share the count.
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

/// A measured value that can rise and fall. Clones share the value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gauge {
    value: Rc<Cell<GaugeValue>>,
    is_highest: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct GaugeValue {
    last: Option<f64>,
    was_sampled: bool,
}

impl Gauge {
    /// Creates a gauge whose values are combined by taking the maximum over all processes, not the sum.
    pub(crate) fn highest() -> Self {
        Self { is_highest: true, ..Self::default() }
    }

    /// Sets the value; `None` if it could not be measured.
    pub(crate) fn set(&self, value: Option<f64>) {
        self.value.set(GaugeValue { last: value, was_sampled: false });
    }

    /// Raises the value to `value`, or replaces it if the gauge has been sampled since it was last set.
    /// Therefore a sample shows the highest value since the previous sample.
    pub(crate) fn raise(&self, value: Option<f64>) {
        let GaugeValue { last, was_sampled } = self.value.get();
        self.set(if was_sampled { value } else { last.into_iter().chain(value).reduce(f64::max) });
    }

    /// Returns the value for a sample, and marks it as sampled.
    pub(super) fn take_level(&self) -> Level {
        let GaugeValue { last: value, .. } = self.value.get();
        self.value.set(GaugeValue { last: value, was_sampled: true });
        if self.is_highest { Level::Highest(value.map(Highest)) } else { Level::Total(value.map(Total)) }
    }
}

/// Counts how connections ended.
#[derive(Debug, Default)]
pub(crate) struct ConnectionEnds {
    by_code: RefCell<BTreeMap<u16, u64>>,
    faults: RefCell<BTreeMap<&'static str, u64>>,
}

impl ConnectionEnds {
    pub(crate) fn record(&self, end: ConnectionEnd) {
        *self.by_code.borrow_mut().entry(end.code()).or_default() += 1;
        if let ConnectionEnd::Fault(fault) = end {
            *self.faults.borrow_mut().entry(fault.name()).or_default() += 1;
        }
    }

    pub(super) fn by_code(&self) -> BTreeMap<u16, u64> {
        self.by_code.borrow().clone()
    }

    /// Returns the number of connections that ended because the server sent invalid frames.
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
        /// Protocol errors of the server, by kind.
        frame_faults: BTreeMap<String, u64>,
    }
}
