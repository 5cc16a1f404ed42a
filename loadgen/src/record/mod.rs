//! What is counted and timed while a scenario runs, by name. One task samples all of it each second.
//!
//! A scenario keeps its [`Counter`]s, [`Gauge`]s and [`Times`] (or [`Latency`], for both views of coordinated omission)
//! as fields, and names those worth a curve over time once, in [`Scenario::record`](crate::scenario::Scenario::record):
//!
//! ```text
//! fn record(&self, recorder: &Recorder) {
//!     recorder.counter("early", &self.early);          // only grows: can also end a run, with --abort-on-fail
//!     recorder.gauge("backlog", &self.backlog);        // comes and goes
//!     recorder.times("lateness_ms", &self.lateness);   // count, p50, p90, p99, p99.9 and max of each second
//!     recorder.latency("connect", &self.connect);      // connect_ms, and connect_from_start_ms
//! }
//! ```
//! The names are those of the outcome, so that an assertion finds both. What is named twice is added up. Where several
//! scenarios run at once, each gets its own [`Recorder::within`]. Connections, connects, closes by code, messages and
//! pings are counted in [`Traffic`], errors in [`Failures`](crate::failure::Failures): they need no naming.
//! [`Recorder::phase`] tells where in its course the run is.

mod counts;
mod look;
mod times;
mod traffic;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::time::Instant;

pub(crate) use self::counts::{CloseCodes, Counter, Gauge};
pub(crate) use self::times::{Latency, Times};
pub(crate) use self::traffic::{Live, Traffic};
use crate::result::{Phase, Sample, Series};

/// More phases than these are not told apart.
const MAX_PHASES: usize = 256;

/// A clone records into the same run.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    /// Before every name, with a dot after it.
    prefix: String,
    shared: Rc<Shared>,
}

#[derive(Debug)]
struct Shared {
    start: Instant,
    traffic: Traffic,
    counters: RefCell<Vec<Named<Counter>>>,
    gauges: RefCell<Vec<Named<Gauge>>>,
    times: RefCell<Vec<Named<Times>>>,
    /// What the count of each close code was when it was last looked at.
    codes_seen: RefCell<BTreeMap<u16, u64>>,
    /// By name, and since when.
    phases: RefCell<Vec<(String, f64)>>,
    series: RefCell<Series>,
    last: RefCell<Sample>,
}

#[derive(Debug)]
struct Named<T> {
    name: String,
    source: T,
    /// What a counter was when it was last looked at.
    seen: u64,
}

impl Recorder {
    pub(crate) fn starting_now() -> Self {
        let shared = Shared {
            start: Instant::now(),
            traffic: Traffic::default(),
            counters: RefCell::default(),
            gauges: RefCell::default(),
            times: RefCell::default(),
            codes_seen: RefCell::default(),
            phases: RefCell::default(),
            series: RefCell::default(),
            last: RefCell::default(),
        };
        let recorder = Self { prefix: String::new(), shared: Rc::new(shared) };
        for (name, counter) in recorder.shared.traffic.counters() {
            recorder.counter(name, counter);
        }
        recorder
    }

    /// The same, with names that begin with `prefix.`: for one of several scenarios.
    #[cfg_attr(not(test), expect(dead_code, reason = "for a scenario that runs others"))]
    pub(crate) fn within(&self, prefix: &str) -> Self {
        Self { prefix: format!("{}{prefix}.", self.prefix), shared: self.shared.clone() }
    }

    pub(crate) fn counter(&self, name: &str, counter: &Counter) {
        self.shared.counters.borrow_mut().push(self.named(name, counter));
    }

    pub(crate) fn gauge(&self, name: &str, gauge: &Gauge) {
        self.shared.gauges.borrow_mut().push(self.named(name, gauge));
    }

    pub(crate) fn times(&self, name: &str, times: &Times) {
        self.shared.times.borrow_mut().push(self.named(name, times));
    }

    pub(crate) fn latency(&self, name: &str, latency: &Latency) {
        for (name, times) in latency.named(name) {
            self.times(&name, times);
        }
    }

    fn named<T: Clone>(&self, name: &str, source: &T) -> Named<T> {
        Named { name: format!("{}{name}", self.prefix), source: source.clone(), seen: 0 }
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.shared.traffic
    }

    /// From now on the run is in this phase.
    pub(crate) fn phase(&self, name: &str) {
        let mut phases = self.shared.phases.borrow_mut();
        if phases.len() < MAX_PHASES {
            phases.push((name.to_owned(), self.seconds()));
        }
    }

    pub(crate) fn current_phase(&self) -> String {
        self.shared.phases.borrow().last().map_or_else(String::new, |(name, _)| name.clone())
    }

    pub(crate) fn phases(&self) -> Vec<Phase> {
        let phases = self.shared.phases.borrow();
        let ends = phases.iter().skip(1).map(|(_, start)| *start).chain([self.seconds()]);
        phases
            .iter()
            .zip(ends)
            .map(|((name, start), end)| Phase { name: name.clone(), start: *start, end })
            .collect()
    }

    /// Since the start, to the microsecond.
    pub(crate) fn seconds(&self) -> f64 {
        crate::result::seconds(self.shared.start.elapsed())
    }

    /// Looks at everything now, for the series.
    pub(crate) fn sample(&self) {
        let sample = self.shared.look(self.seconds());
        self.shared.series.borrow_mut().push(&sample);
        self.shared.last.replace(sample);
    }

    /// The sample that was taken last.
    pub(crate) fn last(&self) -> Sample {
        self.shared.last.borrow().clone()
    }

    pub(crate) fn series(&self) -> Series {
        self.shared.series.borrow().clone()
    }

    /// Whether the number at this path of the result is one of those that [`Self::growing`] tells.
    pub(crate) fn grows(&self, path: &str) -> bool {
        let is_counter = self.shared.counters.borrow().iter().any(|it| it.name == path);
        let is_of_times = path.rsplit_once('.').is_some_and(|(name, what)| {
            ["max", "count"].contains(&what) && self.shared.times.borrow().iter().any(|it| it.name == name)
        });
        is_counter || is_of_times
    }

    /// What the number at this path of the result has grown to, if it can only grow: a counter, or the count or the
    /// maximum of times.
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(crate) fn growing(&self, path: &str) -> Option<f64> {
        let counters = self.shared.counters.borrow();
        let mut counters = counters.iter().filter(|it| it.name == path).map(|it| it.source.get()).peekable();
        if counters.peek().is_some() {
            return Some(counters.sum::<u64>() as f64);
        }
        let (name, what) = path.rsplit_once('.')?;
        let times = self.shared.times.borrow();
        let times = times.iter().filter(|it| it.name == name).map(|it| &it.source);
        match what {
            "max" => times.filter_map(Times::max_micros).max().map(|micros| micros as f64 / 1e3),
            "count" => times.map(Times::count).reduce(|one, other| one + other).map(|count| count as f64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::Event;

    #[test]
    fn a_sample_has_what_came_since_the_last_one() {
        let recorder = Recorder::starting_now();
        let (early, lateness, backlog) = (Counter::default(), Times::default(), Gauge::default());
        recorder.counter("early", &early);
        recorder.times("lateness_ms", &lateness);
        recorder.gauge("backlog", &backlog);
        early.add(3);
        lateness.record(Duration::from_millis(1));
        recorder.sample();
        assert_eq!(recorder.last().get("early"), Some(3.0));
        assert_eq!(recorder.last().get("lateness_ms.count"), Some(1.0));
        assert!(recorder.last().get("lateness_ms.p99").is_some_and(|p99| (0.99..1.01).contains(&p99)));
        assert_eq!(recorder.last().get("backlog"), None);
        early.add(1);
        backlog.set(Some(0.5));
        recorder.sample();
        assert_eq!(recorder.last().get("early"), Some(1.0));
        assert_eq!(recorder.last().get("lateness_ms.count"), Some(0.0));
        assert_eq!(recorder.last().get("lateness_ms.p99"), None);
        assert_eq!(recorder.last().get("backlog"), Some(0.5));
    }

    #[test]
    fn what_is_named_twice_is_added_up_and_what_is_within_has_its_own_name() {
        let recorder = Recorder::starting_now();
        let (one, other, inner) = (Counter::default(), Counter::default(), Counter::default());
        recorder.counter("early", &one);
        recorder.counter("early", &other);
        recorder.within("mute").counter("early", &inner);
        one.add(1);
        other.add(2);
        inner.add(4);
        recorder.sample();
        assert_eq!((recorder.last().get("early"), recorder.last().get("mute.early")), (Some(3.0), Some(4.0)));
        assert_eq!((recorder.growing("early"), recorder.growing("mute.early")), (Some(3.0), Some(4.0)));
    }

    #[test]
    fn counts_and_maxima_grow_and_percentiles_do_not() {
        let recorder = Recorder::starting_now();
        let connect = Latency::default();
        recorder.latency("connect", &connect);
        assert_eq!(recorder.growing("connect_ms.max"), None);
        assert!(
            recorder.grows("connect_ms.max") && recorder.grows("pings") && !recorder.grows("connect_ms.p99")
        );
        let now = Instant::now();
        connect.record(now, now, now + Duration::from_millis(4));
        assert!(recorder.growing("connect_from_start_ms.max").is_some_and(|max| (4.0..4.1).contains(&max)));
        assert_eq!(recorder.growing("connect_ms.count"), Some(1.0));
        for other in ["connect_ms.p99", "connect_ms", "early", "", "errors.max"] {
            assert_eq!(recorder.growing(other), None, "{other}");
        }
    }

    #[test]
    fn traffic_needs_no_naming() {
        let recorder = Recorder::starting_now();
        let (one, other) = (recorder.traffic().opened(), recorder.traffic().opened());
        one.greeted();
        one.saw(&Event::Ping);
        one.saw(&Event::Closed(4000));
        drop(one);
        recorder.sample();
        let last = recorder.last();
        for (name, value) in
            [("connections", 1.0), ("connects", 1.0), ("pings", 1.0), ("closes", 1.0), ("closes.4000", 1.0)]
        {
            assert_eq!(last.get(name), Some(value), "{name} in {last:?}");
        }
        assert_eq!(recorder.traffic().summary().number("connections_max"), Ok(2.0));
        drop(other);
        recorder.sample();
        assert_eq!(
            (recorder.last().get("connections"), recorder.last().get("closes.4000")),
            (Some(0.0), Some(0.0))
        );
    }

    #[test]
    fn phases_follow_each_other() {
        let recorder = Recorder::starting_now();
        assert!(recorder.phases().is_empty());
        recorder.phase("connect");
        recorder.phase("hold");
        let phases = recorder.phases();
        assert_eq!(recorder.current_phase(), "hold");
        assert_eq!(phases[0].end, phases[1].start);
        assert!(phases[1].start <= phases[1].end);
        (0..2 * MAX_PHASES).for_each(|_| recorder.phase("more"));
        assert_eq!(recorder.phases().len(), MAX_PHASES);
    }
}
