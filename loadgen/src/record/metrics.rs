//! The numbers of a run.
//!
//! Each number is named once: where it is created. It is then part of the samples, of the result, of
//! assertions, and of what a process passes to the process that started it. Several instances of a scenario,
//! one per thread, share the numbers of the same path.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use encke_client::{Counter, Counts, Traffic};
use parking_lot::Mutex;
use serde::Serialize;
use strum::EnumTryAs;

use super::times::{Latency, Times};
use crate::result::{Distribution, Field, Group, Sample, convert, shortest};

/// The highest of several values; `None` before the first. Clones share the value.
#[derive(Clone, Debug, Default)]
pub(crate) struct Highest(Arc<Mutex<Option<f64>>>);

impl Highest {
    pub(crate) fn record(&self, value: f64) {
        let mut highest = self.0.lock();
        *highest = Some(highest.map_or(value, |before| before.max(value)));
    }

    pub(crate) fn get(&self) -> Option<f64> {
        *self.0.lock()
    }
}

/// Why a number that was found has the kind that was asked for.
const ONE_KIND: &str = "all instances of a scenario create a number with the same kind";

#[derive(Clone, EnumTryAs)]
enum Metric {
    Counter(Counter),
    Highest(Highest),
    Counts(Counts),
    Times(Times),
    /// Highest number of open connections. Those of several processes are added up.
    Peak(Traffic),
    /// Number that follows from others.
    Computed(Arc<dyn Fn() -> Field + Send + Sync>),
}

struct NamedMetric {
    /// Path in the result.
    path: String,
    /// Name in the series: the path without the part of the run that it belongs to.
    name: String,
    is_of_part: bool,
    /// Whether the result also has the total of all numbers of this name.
    has_total: bool,
    metric: Metric,
    /// Counts at the previous sample.
    last_sampled: BTreeMap<String, u64>,
}

impl NamedMetric {
    fn is_named(&self, name: &str) -> bool {
        self.name == name || self.path == name
    }
}

/// All numbers of a run, in the order of the result. Clones share the numbers.
#[derive(Clone)]
pub(crate) struct Metrics {
    /// Path of the part of the result to which new numbers belong, with a trailing dot if not empty.
    prefix: String,
    has_totals: bool,
    all: Arc<Mutex<Vec<NamedMetric>>>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        Self { prefix: String::new(), has_totals: false, all: Arc::default() }
    }

    /// Returns the numbers of a part of the run. They are below `path` in the result. The numbers of the same
    /// name of all parts are also added up.
    pub(crate) fn within(&self, path: &str) -> Self {
        Self { has_totals: true, ..self.below(path) }
    }

    /// Like [`Self::within`], but without totals.
    pub(crate) fn below(&self, path: &str) -> Self {
        Self { prefix: format!("{}{path}.", self.prefix), has_totals: false, all: Arc::clone(&self.all) }
    }

    pub(crate) fn counter(&self, name: &str) -> Counter {
        self.find_or_add(name, Metric::Counter(Counter::default())).try_as_counter().expect(ONE_KIND)
    }

    pub(crate) fn highest(&self, name: &str) -> Highest {
        self.find_or_add(name, Metric::Highest(Highest::default())).try_as_highest().expect(ONE_KIND)
    }

    pub(crate) fn counts(&self, name: &str) -> Counts {
        self.find_or_add(name, Metric::Counts(Counts::default())).try_as_counts().expect(ONE_KIND)
    }

    /// Times in milliseconds; `name` ends with `_ms`.
    pub(crate) fn times(&self, name: &str) -> Times {
        self.find_or_add(name, Metric::Times(Times::default())).try_as_times().expect(ONE_KIND)
    }

    /// Adds `NAME_ms`, counted from when an operation was due, and `NAME_from_start_ms`.
    pub(crate) fn latency(&self, name: &str) -> Latency {
        Latency {
            from_due: self.times(&format!("{name}_ms")),
            from_start: self.times(&format!("{name}_from_start_ms")),
        }
    }

    /// Adds a value that does not change, like an option.
    pub(crate) fn value(&self, name: &str, value: impl Serialize + Send + Sync + 'static) {
        self.find_or_add(name, Metric::Computed(Arc::new(move || convert(&value))));
    }

    /// Adds a number that follows from others.
    pub(crate) fn computed(&self, name: &str, compute: impl Fn() -> u64 + Send + Sync + 'static) {
        self.find_or_add(name, Metric::Computed(Arc::new(move || Field::Count(compute()))));
    }

    /// Names the counts of all connections, regardless of the scenario.
    pub(crate) fn add_traffic(&self, traffic: &Traffic) {
        self.find_or_add("close_codes", Metric::Counts(traffic.close_codes.clone()));
        self.find_or_add("frame_faults", Metric::Counts(traffic.frame_faults.clone()));
        let counters = [
            ("connects", &traffic.connects),
            ("messages", &traffic.messages),
            ("pings", &traffic.pings),
            ("closes", &traffic.closes),
        ];
        for (name, counter) in counters {
            let path = if name == "pings" { name.to_owned() } else { format!("traffic.{name}") };
            self.find_or_add_at(path, name, Metric::Counter(counter.clone()));
        }
        let faults = traffic.frame_faults.clone();
        self.computed("traffic.frame_faults", move || faults.get().values().sum());
        self.find_or_add("traffic.connections_max", Metric::Peak(traffic.clone()));
    }

    fn find_or_add(&self, name: &str, new: Metric) -> Metric {
        self.find_or_add_at(format!("{}{name}", self.prefix), name, new)
    }

    /// Returns the number at this path. Adds it if it does not exist, that is, for the first of several
    /// instances of a scenario.
    fn find_or_add_at(&self, path: String, name: &str, new: Metric) -> Metric {
        let mut all = self.all.lock();
        if let Some(known) = all.iter().find(|it| it.path == path) {
            return known.metric.clone();
        }
        let (has_total, is_of_part) = (self.has_totals, !self.prefix.is_empty());
        let (name, last_sampled) = (name.to_owned(), BTreeMap::new());
        all.push(NamedMetric { path, name, is_of_part, has_total, metric: new.clone(), last_sampled });
        new
    }

    /// Returns the result: totals over all parts, followed by the parts.
    pub(crate) fn result(&self) -> Group {
        let (mut totals, mut parts) = (Group::default(), Group::default());
        for NamedMetric { path, name, is_of_part, has_total, metric, .. } in &*self.all.lock() {
            let field = metric.field();
            let is_sum = matches!(field, Field::Count(_) | Field::Group(_) | Field::Distribution(_));
            if *has_total && is_sum && !matches!(metric, Metric::Highest(_)) {
                totals.push_at(name, field.clone());
            }
            if *is_of_part { &mut parts } else { &mut totals }.push_at(path, field);
        }
        totals.and(parts)
    }

    /// Returns the number at this path of the result if it can only grow.
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(crate) fn growing(&self, path: &str) -> Option<f64> {
        let all = self.all.lock();
        let counts = all.iter().filter_map(|it| match &it.metric {
            Metric::Counter(counter) if it.is_named(path) => Some(counter.get()),
            _ => None,
        });
        if let Some(count) = counts.reduce(|one, other| one + other) {
            return Some(count as f64);
        }
        let (name, what) = path.rsplit_once('.')?;
        let times = all.iter().filter_map(|it| match &it.metric {
            Metric::Times(times) if it.is_named(name) => Some(times),
            _ => None,
        });
        let sum = times.map(Times::summary).reduce(|mut sum, times| {
            sum.add(&times);
            sum
        });
        sum.filter(|_| ["count", "max"].contains(&what))?.percentiles().number(what).ok()
    }

    /// Adds to a sample what was counted and timed since the previous sample.
    pub(crate) fn sample(&self, sample: &mut Sample) {
        let mut times: BTreeMap<String, Distribution> = BTreeMap::new();
        for NamedMetric { name, metric, last_sampled, .. } in &mut *self.all.lock() {
            let mut add = |name: String, now: u64| {
                let before = last_sampled.insert(name.clone(), now).unwrap_or_default();
                sample.count(&name, now - before);
            };
            match metric {
                Metric::Counter(counter) => add(name.clone(), counter.get()),
                Metric::Counts(counts) => {
                    counts.get().into_iter().for_each(|(key, count)| add(format!("{name}.{key}"), count));
                }
                Metric::Times(recorded) => match times.get_mut(name) {
                    Some(sum) => sum.add(&recorded.take_second()),
                    None => drop(times.insert(name.clone(), recorded.take_second())),
                },
                Metric::Highest(_) | Metric::Peak(_) | Metric::Computed(_) => {}
            }
        }
        times.iter().for_each(|(name, times)| sample.times(name, times));
    }

    /// Returns all numbers by their paths, to be added to those of the process that started this one.
    pub(crate) fn by_path(&self) -> Group {
        Group(self.all.lock().iter().map(|it| (it.path.clone(), it.metric.field())).collect())
    }

    /// Adds the numbers of a process that ran the same scenario.
    pub(crate) fn absorb(&self, by_path: &Group) {
        for NamedMetric { path, metric, .. } in &*self.all.lock() {
            match (metric, by_path.get(path)) {
                (Metric::Counter(counter), Some(Field::Count(count))) => counter.add(*count),
                (Metric::Highest(highest), Some(value)) => {
                    value.as_number().into_iter().for_each(|value| highest.record(value));
                }
                (Metric::Counts(counts), Some(Field::Group(others))) => {
                    let others: BTreeMap<String, u64> = convert(others);
                    others.iter().for_each(|(name, count)| _ = counts.add(name, *count));
                }
                (Metric::Times(times), Some(Field::Distribution(others))) => times.add(others),
                (Metric::Peak(traffic), Some(Field::Count(peak))) => traffic.add_to_peak(*peak),
                _ => {}
            }
        }
    }
}

impl Metric {
    fn field(&self) -> Field {
        match self {
            Self::Counter(counter) => Field::Count(counter.get()),
            Self::Highest(highest) => highest.get().map_or(Field::Null, shortest),
            Self::Counts(counts) => convert(&counts.get()),
            Self::Times(times) => Field::Distribution(Box::new(times.summary())),
            Self::Peak(traffic) => Field::Count(traffic.peak()),
            Self::Computed(compute) => compute(),
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.lock().iter().map(|it| &it.path)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Creates the numbers of one instance of a scenario, and records something in each.
    fn run(metrics: &Metrics) {
        metrics.counter("opened").add(2);
        metrics.highest("peak").record(7.0);
        metrics.counts("codes").increment("4000");
        metrics.times("lateness_ms").record(Duration::from_millis(5));
        let opened = metrics.counter("opened");
        metrics.computed("doubled", move || opened.get() * 2);
    }

    fn numbers(metrics: &Metrics) -> Vec<f64> {
        let result = metrics.result();
        let paths = ["opened", "peak", "codes.4000", "lateness_ms.count", "doubled"];
        paths.iter().map(|path| result.number(path).expect(path)).collect()
    }

    #[test]
    fn instances_share_numbers_and_processes_add_them_up() {
        let metrics = Metrics::new();
        run(&metrics);
        run(&metrics);
        assert_eq!(numbers(&metrics), [4.0, 7.0, 2.0, 2.0, 8.0]);
        let whole = Metrics::new();
        run(&whole);
        whole.absorb(&metrics.by_path());
        assert_eq!(numbers(&whole), [6.0, 7.0, 3.0, 3.0, 12.0]);
        assert_eq!(whole.growing("opened"), Some(6.0));
        assert_eq!(whole.growing("lateness_ms.count"), Some(3.0));
        assert_eq!(whole.growing("peak"), None);
    }

    #[test]
    fn parts_have_totals() {
        let metrics = Metrics::new();
        for (part, lost) in [("plan.one", 2), ("plan.two", 3)] {
            metrics.within(part).counter("lost").add(lost);
        }
        metrics.below("attacker").counter("requests").add(1);
        let result = metrics.result();
        for (path, number) in
            [("lost", 5.0), ("plan.one.lost", 2.0), ("plan.two.lost", 3.0), ("attacker.requests", 1.0)]
        {
            assert_eq!(result.number(path), Ok(number), "{path}");
        }
        assert!(result.number("requests").is_err());
    }

    #[test]
    fn a_sample_has_what_was_added_since_the_last_one() {
        let metrics = Metrics::new();
        for expected in [2.0, 2.0] {
            run(&metrics);
            let mut sample = Sample::default();
            metrics.sample(&mut sample);
            assert_eq!(sample.get("opened"), Some(expected));
            assert_eq!(sample.get("codes.4000"), Some(1.0));
            assert_eq!(sample.get("lateness_ms.count"), Some(1.0));
        }
    }
}
