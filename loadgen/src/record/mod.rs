//! What is counted and timed while a scenario runs, by name. One task samples all of it each second.
//!
//! A scenario keeps its [`Counter`]s, [`Gauge`]s and [`Times`] (or [`Latency`], for both views of coordinated omission)
//! as fields, and names those worth a curve over time once, in `Scenario::record`:
//!
//! ```text
//! fn record(&self, recorder: &Recorder) {
//!     recorder.counter("early", &self.early);          // only grows: can also end a run, with --abort-on-fail
//!     recorder.gauge("backlog", &self.backlog);        // comes and goes
//!     recorder.times("lateness_ms", &self.lateness);   // count, p50, p90, p99, p99.9 and max of each second
//!     recorder.latency("connect", &self.connect);      // connect_ms, and connect_from_start_ms
//! }
//! ```
//! What scenarios have in common names its own in a `register`. The names are those of the outcome, so that an assertion
//! finds both. What is named twice is added up, which is how several scenarios at once share a curve. Connections,
//! connects, closes by code, messages and pings are counted in [`Traffic`], errors in `Failures`: they need no naming.
//! [`Recorder::phase`] names the current phase of the run.

mod counts;
mod look;
mod looks;
mod stalls;
#[cfg(test)]
mod tests;
mod times;
mod traffic;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use self::counts::{Counter, Ends, EndsOutcome, Gauge};
use self::looks::Looks;
pub(crate) use self::looks::{Clock, Due};
pub(crate) use self::stalls::Stalls;
pub(crate) use self::times::{Latency, Times};
pub use self::traffic::Traffic;
pub(crate) use self::traffic::{Live, TrafficSummary};
use crate::result::{Phase, Sample, Series, Values};

/// More phases than these are not recorded.
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
    looks: Looks,
    stalls: Stalls,
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
            looks: Looks::default(),
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

    /// The same, with names that begin with `prefix.`: for a part of the outcome.
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

    fn named<T: Clone>(&self, name: &str, source: &T) -> Named<T> {
        Named { name: format!("{}{name}", self.prefix), source: source.clone(), seen: 0 }
    }

    pub(crate) fn traffic(&self) -> &Traffic {
        &self.shared.traffic
    }

    pub(crate) fn stalls(&self) -> &Stalls {
        &self.shared.stalls
    }

    /// From now on the run is in this phase. What is within another does not say so: the other one does.
    pub(crate) fn phase(&self, name: &str) {
        self.enter_phase(name, false);
    }

    /// The same; and as what happens in it is over soon, everything is looked at ten times a second.
    pub(crate) fn brief_phase(&self, name: &str) {
        self.enter_phase(name, true);
    }

    fn enter_phase(&self, name: &str, is_brief: bool) {
        let mut phases = self.shared.phases.borrow_mut();
        if self.prefix.is_empty() && phases.len() < MAX_PHASES {
            phases.push((name.to_owned(), self.seconds()));
            self.shared.looks.enter_phase(is_brief);
        }
    }

    pub(crate) fn current_phase(&self) -> String {
        self.shared.phases.borrow().last().map_or_else(String::new, |(name, _)| name.clone())
    }

    pub(crate) fn phases(&self) -> Vec<Phase> {
        let phases = self.shared.phases.borrow();
        let ends = phases.iter().skip(1).map(|(_, start)| *start).chain([self.seconds()]);
        phases.iter().zip(ends).map(|((name, start), end)| Phase::new(name.clone(), *start, end)).collect()
    }

    /// Since the start, to the microsecond.
    pub(crate) fn seconds(&self) -> f64 {
        crate::result::seconds(self.shared.start.elapsed())
    }

    /// Tells one who looks each second when to do so. The first second is over at this instant.
    pub(crate) fn clock(&self, first: Instant, period: Duration) -> Clock {
        Clock::new(self, first, period)
    }

    pub(crate) fn is_looked_at_closely(&self) -> bool {
        self.shared.looks.is_close()
    }

    /// In a brief phase: returns when a sample of this instant has been taken.
    pub(crate) async fn look_now(&self) {
        if self.prefix.is_empty() {
            self.shared.looks.look_now().await;
        }
    }

    /// Looks at everything now, for the series.
    pub(crate) fn sample(&self) -> Values {
        let values = self.shared.look(self.seconds());
        let sample = values.to_sample();
        if self.is_looked_at_closely() {
            self.shared.series.borrow_mut().push_apart(&sample);
        } else {
            self.shared.series.borrow_mut().push(&sample);
        }
        self.shared.looks.note_looked();
        self.shared.last.replace(sample);
        values
    }

    /// The sample that was taken last.
    pub(crate) fn last(&self) -> Sample {
        self.shared.last.borrow().clone()
    }

    pub(crate) fn series(&self) -> Series {
        self.shared.series.borrow().clone()
    }

    /// Whether [`Self::growing`] knows the number at this path of the result.
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
