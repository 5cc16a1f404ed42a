//! Records by name what is counted and timed while a scenario runs. One task samples all of it every second.
//!
//! A scenario keeps its [`Counter`]s, [`Gauge`]s and [`Times`] (or [`Latency`], for both views of coordinated
//! omission) as fields. In `Scenario::record` it names the ones that get a curve over time:
//!
//! ```text
//! fn record(&self, recorder: &Recorder) {
//!     recorder.counter("early", &self.early);          // only grows: can also end a run, with --abort-on-fail
//!     recorder.gauge("backlog", &self.backlog);        // rises and falls
//!     recorder.times("lateness_ms", &self.lateness);   // count, p50, p90, p99, p99.9 and max of each second
//!     recorder.latency("connect", &self.connect);      // connect_ms, and connect_from_start_ms
//! }
//! ```
//!
//! Parts that several scenarios share register their values in a `register` function. The names are the same
//! as in the outcome, so that an assertion finds both. Records with the same name are added up: this is how
//! scenarios that run at the same time share a curve. Connections, connects, closes by code, messages and
//! pings are counted in [`Traffic`], and errors in `Failures`; they need no naming. [`Recorder::phase`] names
//! the current phase of the run.

mod counts;
mod sampling;
mod stalls;
#[cfg(test)]
mod tests;
mod times;
mod traffic;
mod triggers;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use self::counts::{ConnectionEnds, Counter, EndsOutcome, Gauge};
pub(crate) use self::stalls::Stalls;
pub(crate) use self::times::{Latency, Times};
pub use self::traffic::Traffic;
pub(crate) use self::traffic::{ConnectionGuard, TrafficSummary};
use self::triggers::SampleTriggers;
pub(crate) use self::triggers::{SampleReason, SamplingClock};
use crate::result::{RunPhase, Sample, Series, Values};

/// Maximum number of phases to record. Later phases are ignored.
const MAX_PHASES: usize = 256;

/// Records of one run. Clones record into the same run.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    /// Prefix of all names, with a trailing dot if not empty.
    prefix: String,
    shared: Rc<SharedRecords>,
}

#[derive(Debug)]
struct SharedRecords {
    start: Instant,
    traffic: Traffic,
    counters: RefCell<Vec<NamedSource<Counter>>>,
    gauges: RefCell<Vec<NamedSource<Gauge>>>,
    times: RefCell<Vec<NamedSource<Times>>>,
    /// Count of each close code at the previous sample.
    last_sampled_codes: RefCell<BTreeMap<u16, u64>>,
    /// Name of each phase, and when it began, in seconds since the start.
    phases: RefCell<Vec<(String, f64)>>,
    triggers: SampleTriggers,
    stalls: Stalls,
    series: RefCell<Series>,
    last: RefCell<Sample>,
}

#[derive(Debug)]
struct NamedSource<T> {
    name: String,
    source: T,
    /// Value of a counter at the previous sample.
    last_sampled: u64,
}

impl Recorder {
    pub(crate) fn starting_now() -> Self {
        let shared = SharedRecords {
            start: Instant::now(),
            traffic: Traffic::default(),
            counters: RefCell::default(),
            gauges: RefCell::default(),
            times: RefCell::default(),
            last_sampled_codes: RefCell::default(),
            phases: RefCell::default(),
            triggers: SampleTriggers::default(),
            stalls: Stalls::default(),
            series: RefCell::default(),
            last: RefCell::default(),
        };
        let recorder = Self { prefix: String::new(), shared: Rc::new(shared) };
        for (name, counter) in recorder.shared.traffic.counters() {
            recorder.counter(name, counter);
        }
        recorder
    }

    /// Returns a recorder for a part of the outcome. It prepends `prefix.` to all names.
    pub(crate) fn within(&self, prefix: &str) -> Self {
        Self { prefix: format!("{}{prefix}.", self.prefix), shared: self.shared.clone() }
    }

    pub(crate) fn counter(&self, name: &str, counter: &Counter) {
        self.shared.counters.borrow_mut().push(self.named(name, counter));
    }

    pub(crate) fn counters<const N: usize>(&self, counters: [(&str, &Counter); N]) {
        for (name, counter) in counters {
            self.counter(name, counter);
        }
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

    fn named<T: Clone>(&self, name: &str, source: &T) -> NamedSource<T> {
        NamedSource { name: format!("{}{name}", self.prefix), source: source.clone(), last_sampled: 0 }
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.shared.traffic
    }

    pub(crate) fn stalls(&self) -> &Stalls {
        &self.shared.stalls
    }

    /// Enters a phase. Does nothing on a recorder from [`Self::within`]: the surrounding scenario sets the
    /// phases.
    pub(crate) fn phase(&self, name: &str) {
        self.enter_phase(name, false);
    }

    /// Enters a phase that will soon be over. Samples are taken ten times a second while it lasts.
    pub(crate) fn brief_phase(&self, name: &str) {
        self.enter_phase(name, true);
    }

    fn enter_phase(&self, name: &str, is_brief: bool) {
        let mut phases = self.shared.phases.borrow_mut();
        if self.prefix.is_empty() && phases.len() < MAX_PHASES {
            phases.push((name.to_owned(), self.seconds()));
            self.shared.triggers.enter_phase(is_brief);
        }
    }

    pub(crate) fn current_phase(&self) -> String {
        self.shared.phases.borrow().last().map_or_else(String::new, |(name, _)| name.clone())
    }

    pub(crate) fn phases(&self) -> Vec<RunPhase> {
        let phases = self.shared.phases.borrow();
        let ends = phases.iter().skip(1).map(|(_, start)| *start).chain([self.seconds()]);
        phases.iter().zip(ends).map(|((name, start), end)| RunPhase::new(name.clone(), *start, end)).collect()
    }

    /// Returns the seconds since the start, with microsecond precision.
    pub(crate) fn seconds(&self) -> f64 {
        crate::result::seconds(self.shared.start.elapsed())
    }

    /// Returns a schedule of samples. The first sample is due at `first`, the others follow at intervals of
    /// `period`.
    pub(crate) fn clock(&self, first: Instant, period: Duration) -> SamplingClock {
        SamplingClock::new(self, first, period)
    }

    pub(crate) fn is_sampling_fast(&self) -> bool {
        self.shared.triggers.is_fast()
    }

    /// Requests a sample and returns when it has been taken. Does nothing except in brief phases.
    pub(crate) async fn sample_now(&self) {
        if self.prefix.is_empty() {
            self.shared.triggers.sample_now().await;
        }
    }

    /// Samples everything, and adds the sample to the series.
    pub(crate) fn sample(&self) -> Values {
        let values = self.shared.sample(self.seconds());
        let sample = values.to_sample();
        if self.is_sampling_fast() {
            self.shared.series.borrow_mut().push_unmerged(&sample);
        } else {
            self.shared.series.borrow_mut().push(&sample);
        }
        self.shared.triggers.note_sampled();
        self.shared.last.replace(sample);
        values
    }

    /// Returns the last sample.
    pub(crate) fn last(&self) -> Sample {
        self.shared.last.borrow().clone()
    }

    pub(crate) fn series(&self) -> Series {
        self.shared.series.borrow().clone()
    }

    /// Returns whether [`Self::monotonic_value`] knows the number at this path of the result.
    pub(crate) fn is_monotonic(&self, path: &str) -> bool {
        let is_counter = self.shared.counters.borrow().iter().any(|it| it.name == path);
        let is_of_times = path.rsplit_once('.').is_some_and(|(name, what)| {
            ["max", "count"].contains(&what) && self.shared.times.borrow().iter().any(|it| it.name == name)
        });
        is_counter || is_of_times
    }

    /// Returns the current value of the number at this path of the result, if it can only grow: a counter, or
    /// the count or the maximum of times.
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(crate) fn monotonic_value(&self, path: &str) -> Option<f64> {
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
