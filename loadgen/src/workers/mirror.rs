//! The children's samples as the parent's own counters, gauges and times, so that all that looks at a run sees the whole.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::cost::{self, Second};
use crate::record::{Counter, Gauge, Recorder, Times};
use crate::result::{Kind, Sample};

use super::line::WorkerSample;

#[derive(Debug)]
pub(super) struct Mirror {
    recorder: Recorder,
    /// The last sample of each child.
    last: RefCell<Vec<Sample>>,
    counters: RefCell<BTreeMap<String, Counter>>,
    gauges: RefCell<BTreeMap<String, Gauge>>,
    times: RefCell<BTreeMap<String, Times>>,
    pings: Cell<u64>,
}

impl Mirror {
    pub(super) fn new(children: usize, recorder: &Recorder) -> Self {
        Self {
            recorder: recorder.clone(),
            last: RefCell::new(vec![Sample::default(); children]),
            counters: RefCell::default(),
            gauges: RefCell::default(),
            times: RefCell::default(),
            pings: Cell::new(0),
        }
    }

    /// A child has told one more sample.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are written as such")]
    pub(super) fn add(&self, child: usize, told: &WorkerSample) {
        for (_, name, value) in told.sample.values.iter().filter(|(kind, _, _)| *kind == Kind::Count) {
            let count = value.unwrap_or(0.0) as u64;
            self.counter(name).add(count);
            if name == "pings" {
                self.pings.set(self.pings.get() + count);
            }
        }
        for (name, times) in &told.timed {
            self.times(name).add(times);
        }
        // Who has ended has nothing any more.
        self.last.borrow_mut()[child] = if told.is_last { Sample::default() } else { told.sample.clone() };
        for (name, value) in self.gauges_of_all() {
            self.gauge(&name).set(value);
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

    fn gauges_of_all(&self) -> BTreeMap<String, Option<f64>> {
        let mut sums = BTreeMap::new();
        for sample in &*self.last.borrow() {
            for (kind, name, value) in sample.values.iter().filter(|(kind, _, _)| *kind == Kind::Gauge) {
                let sum = sums.entry(name.clone()).or_insert(None);
                *sum = kind.sum(name, *sum, *value);
            }
        }
        sums
    }

    /// What all children together do to the server.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is a count")]
    pub(super) fn load(&self) -> cost::Load {
        let connections =
            self.last.borrow().iter().filter_map(|sample| sample.get("connections")).sum::<f64>();
        cost::Load { connections: connections as u64, pings: self.pings.get() }
    }

    /// The busiest and the latest of the children.
    pub(super) fn second(&self, server_cores: Option<f64>) -> Second {
        let last = self.last.borrow();
        let worst = |name| last.iter().filter_map(|sample| sample.get(name)).reduce(f64::max);
        Second { self_cores: worst("loadgen.cores"), lag_ms: worst("loadgen.lag_ms"), server_cores }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn told(connections: f64, pings: f64, cores: f64) -> WorkerSample {
        let values = vec![
            (Kind::Gauge, "connections".to_owned(), Some(connections)),
            (Kind::Gauge, "loadgen.cores".to_owned(), Some(cores)),
            (Kind::Count, "pings".to_owned(), Some(pings)),
        ];
        let sample = Sample { t: 1.0, values };
        let connect = Times::default();
        connect.record(Duration::from_secs_f64(pings));
        let timed = vec![("connect_ms".to_owned(), connect.summary())];
        WorkerSample { phase: String::new(), second: 1, is_last: false, sample, timed }
    }

    #[test]
    fn the_parent_sees_the_sum() {
        let recorder = Recorder::starting_now();
        let mirror = Mirror::new(2, &recorder);
        mirror.add(0, &told(5.0, 1.0, 0.2));
        mirror.add(1, &told(7.0, 2.0, 0.9));
        mirror.add(0, &told(6.0, 4.0, 0.3));
        recorder.sample();
        let last = recorder.last();
        assert_eq!((last.get("connections"), last.get("pings")), (Some(13.0), Some(7.0)));
        assert_eq!(recorder.growing("pings"), Some(7.0));
        assert_eq!(
            (last.get("connect_ms.count"), recorder.growing("connect_ms.count")),
            (Some(3.0), Some(3.0))
        );
        assert!(last.get("connect_ms.p50").is_some_and(|p50| (1980.0..2020.0).contains(&p50)), "{last:?}");
        assert!(recorder.growing("connect_ms.max").is_some_and(|max| (3960.0..4040.0).contains(&max)));
        assert_eq!(mirror.load(), cost::Load { connections: 13, pings: 7 });
        assert_eq!(mirror.second(Some(0.5)).self_cores, Some(0.9));
        mirror.add(1, &WorkerSample { is_last: true, ..told(0.0, 0.0, 0.9) });
        assert_eq!(mirror.load(), cost::Load { connections: 6, pings: 7 });
        assert_eq!(mirror.second(Some(0.5)).self_cores, Some(0.3));
    }
}
