//! Keeps counters, gauges and times in the parent that hold the sums over all workers, so that the parent can
//! display and sample them like its own.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::cost::{self, SecondUsage};
use crate::record::{Counter, Gauge, Recorder, Times};
use crate::result::{Values, sum};

use super::message::WorkerSample;

#[derive(Debug)]
pub(super) struct Mirror {
    recorder: Recorder,
    /// Last gauges of each worker.
    last: RefCell<Vec<Values>>,
    counters: RefCell<BTreeMap<String, Counter>>,
    gauges: RefCell<BTreeMap<String, Gauge>>,
    times: RefCell<BTreeMap<String, Times>>,
    pings: Cell<u64>,
}

impl Mirror {
    pub(super) fn new(workers: usize, recorder: &Recorder) -> Self {
        Self {
            recorder: recorder.clone(),
            last: RefCell::new(vec![Values::default(); workers]),
            counters: RefCell::default(),
            gauges: RefCell::default(),
            times: RefCell::default(),
            pings: Cell::new(0),
        }
    }

    /// Adds a sample of a worker.
    pub(super) fn add(&self, worker: usize, sample: &WorkerSample) {
        let Values { counts, times, .. } = &sample.values;
        for (name, count) in counts {
            self.counter(name).add(*count);
        }
        self.pings.set(self.pings.get() + counts.get("pings").copied().unwrap_or_default());
        for (name, times) in times {
            self.times(name).add(times);
        }
        // Drop the gauges of a worker that has ended: it has no connections.
        let gauges = if sample.is_last { Values::default() } else { sample.values.gauges_only() };
        self.last.borrow_mut()[worker] = gauges;
        let sum = sum(self.last.borrow().iter().cloned()).unwrap_or_default();
        for (name, level) in &sum.gauges {
            self.gauge(name).set(level.number());
        }
    }

    fn counter(&self, name: &str) -> Counter {
        let mut counters = self.counters.borrow_mut();
        let new = || {
            let counter = Counter::default();
            self.recorder.counter(name, &counter);
            counter
        };
        counters.entry(name.to_owned()).or_insert_with(new).clone()
    }

    fn gauge(&self, name: &str) -> Gauge {
        let mut gauges = self.gauges.borrow_mut();
        let new = || {
            let gauge = Gauge::default();
            self.recorder.gauge(name, &gauge);
            gauge
        };
        gauges.entry(name.to_owned()).or_insert_with(new).clone()
    }

    fn times(&self, name: &str) -> Times {
        let mut times = self.times.borrow_mut();
        let new = || {
            let times = Times::default();
            self.recorder.times(name, &times);
            times
        };
        times.entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// Returns the combined load of all workers.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
    pub(super) fn load(&self) -> cost::ServerLoad {
        let connections =
            self.last.borrow().iter().filter_map(|values| values.gauge("connections")).sum::<f64>();
        cost::ServerLoad { connections: connections as u64, pings: self.pings.get() }
    }

    /// Returns the CPU usage of the busiest worker and the lag of the slowest.
    pub(super) fn usage(&self, server_cores: Option<f64>) -> SecondUsage {
        let last = self.last.borrow();
        let worst = |name| last.iter().filter_map(|values| values.gauge(name)).reduce(f64::max);
        SecondUsage { self_cores: worst("loadgen.cores"), lag_ms: worst("loadgen.lag_ms"), server_cores }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::result::{Highest, Level, Total};
    use crate::workers::SampleNumber;

    fn sample(connections: f64, pings: u64, cores: f64) -> WorkerSample {
        let connect = Times::default();
        connect.record(Duration::from_secs(pings));
        let gauges = [("connections", connections), ("loadgen.cores", cores)];
        let values = Values {
            t: Highest(1.0),
            gauges: gauges.map(|(name, value)| (name.to_owned(), Level::Total(Some(Total(value))))).into(),
            counts: [("pings".to_owned(), pings)].into(),
            times: [("connect_ms".to_owned(), connect.summary())].into(),
        };
        WorkerSample {
            number: SampleNumber::Timed { second: 1, nth: 0 },
            is_fast: false,
            is_last: false,
            values,
        }
    }

    #[test]
    fn mirrored_values_are_sums() {
        let recorder = Recorder::starting_now();
        let mirror = Mirror::new(2, &recorder);
        mirror.add(0, &sample(5.0, 1, 0.2));
        mirror.add(1, &sample(7.0, 2, 0.9));
        mirror.add(0, &sample(6.0, 4, 0.3));
        recorder.sample();
        let last = recorder.last();
        assert_eq!((last.get("connections"), last.get("pings")), (Some(13.0), Some(7.0)));
        assert_eq!(recorder.monotonic_value("pings"), Some(7.0));
        assert_eq!(
            (last.get("connect_ms.count"), recorder.monotonic_value("connect_ms.count")),
            (Some(3.0), Some(3.0))
        );
        assert!(last.get("connect_ms.p50").is_some_and(|p50| (1980.0..2020.0).contains(&p50)), "{last:?}");
        assert!(
            recorder.monotonic_value("connect_ms.max").is_some_and(|max| (3960.0..4040.0).contains(&max))
        );
        assert_eq!(mirror.load(), cost::ServerLoad { connections: 13, pings: 7 });
        assert_eq!(mirror.usage(Some(0.5)).self_cores, Some(0.9));
        mirror.add(1, &WorkerSample { is_last: true, ..sample(0.0, 0, 0.9) });
        assert_eq!(mirror.load(), cost::ServerLoad { connections: 6, pings: 7 });
        assert_eq!(mirror.usage(Some(0.5)).self_cores, Some(0.3));
    }
}
