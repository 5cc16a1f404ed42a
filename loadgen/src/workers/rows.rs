//! Builds the series of a run from the samples of its workers. Each row combines the workers' samples as if
//! one process had taken them.

use std::collections::BTreeMap;

use super::message::{SampleNumber, WorkerSample};
use crate::result::{Series, Sum as _, Values};

/// Maximum number of incomplete rows. A sample that arrives after its row was finished counts towards the
/// first unfinished row.
const MAX_PENDING: usize = 60;

/// One sample, combined from all workers.
#[derive(Debug, Default)]
struct SampleRow {
    is_fast: bool,
    /// Last gauges of each worker that has sent this sample.
    gauges: BTreeMap<usize, Values>,
    /// Sum of all values except the gauges.
    values: Values,
}

/// State of a worker: the highest sample numbers that it has sent. All later samples have higher numbers.
#[derive(Clone, Debug, Default)]
struct WorkerProgress {
    timed: TimedNumber,
    requested: u64,
    /// Last gauges. They also count for a second that the worker skipped because it was delayed.
    gauges: Values,
}

/// A second, and the number of the sample after its end.
type TimedNumber = (u64, u64);

#[derive(Debug)]
pub(super) struct Rows {
    sent: Vec<WorkerProgress>,
    timed: BTreeMap<TimedNumber, SampleRow>,
    /// Samples requested by the scenario. In one worker such a sample may come before the end of a second,
    /// and in another worker after it.
    requested: BTreeMap<u64, SampleRow>,
    /// Numbers of the first samples that are not in the series yet.
    next_timed: TimedNumber,
    next_requested: u64,
    series: Series,
}

impl Rows {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            sent: vec![WorkerProgress::default(); workers],
            timed: BTreeMap::new(),
            requested: BTreeMap::new(),
            next_timed: (1, 0),
            next_requested: 1,
            series: Series::default(),
        }
    }

    /// Adds a sample from a worker. The sample numbers of a worker must increase.
    pub(super) fn add(&mut self, worker: usize, sample: WorkerSample) {
        let WorkerSample { number, is_fast, is_last, mut values } = sample;
        let sent = &mut self.sent[worker];
        let row = match number {
            SampleNumber::Timed { second, nth } => {
                sent.timed = (second, nth);
                row_of(&mut self.timed, sent.timed, self.next_timed)
            }
            SampleNumber::Requested(number) => {
                sent.requested = number;
                row_of(&mut self.requested, number, self.next_requested)
            }
        };
        if is_last {
            (sent.timed, sent.requested) = ((u64::MAX, u64::MAX), u64::MAX);
        }
        sent.gauges = values.take_gauges();
        row.is_fast |= is_fast;
        row.gauges.insert(worker, sent.gauges.clone());
        row.values.add(values);
        let timed = self.sent.iter().map(|sent| sent.timed).min().unwrap_or_default();
        let requested = self.sent.iter().map(|sent| sent.requested).min().unwrap_or_default();
        while self.finish_first(timed, requested) {}
    }

    /// Moves the first complete row to the series. A row is complete if all workers have sent it, that is, if
    /// its number is at most `timed` or `requested`. It also counts as complete if too many rows are pending.
    /// Returns false if no row is complete.
    fn finish_first(&mut self, timed: TimedNumber, requested: u64) -> bool {
        let is_full = self.timed.len() > MAX_PENDING;
        let first_timed = self.timed.first_key_value().filter(|(number, _)| **number <= timed || is_full);
        let first_requested =
            self.requested.first_key_value().filter(|(number, _)| **number <= requested || is_full);
        let row = match (first_timed, first_requested) {
            (None, None) => return false,
            (Some((_, timed)), Some((_, requested))) if timed.values.t.0 < requested.values.t.0 => {
                self.take_timed()
            }
            (Some(_), None) => self.take_timed(),
            (_, Some(_)) => self.take_requested(),
        };
        let Some(SampleRow { is_fast, mut gauges, mut values }) = row else { return false };
        for (worker, sent) in self.sent.iter().enumerate() {
            values.add(gauges.remove(&worker).unwrap_or_else(|| sent.gauges.clone()));
        }
        if is_fast {
            self.series.push_unmerged(&values.to_sample());
        } else {
            self.series.push(&values.to_sample());
        }
        true
    }

    fn take_timed(&mut self) -> Option<SampleRow> {
        let ((second, nth), row) = self.timed.pop_first()?;
        self.next_timed = (second, nth + 1);
        Some(row)
    }

    fn take_requested(&mut self) -> Option<SampleRow> {
        let (number, row) = self.requested.pop_first()?;
        self.next_requested = number + 1;
        Some(row)
    }

    /// Returns the series of all samples.
    pub(super) fn into_series(mut self) -> Series {
        while self.finish_first((u64::MAX, u64::MAX), u64::MAX) {}
        self.series
    }
}

/// Returns the row of a sample. If that row is already in the series, returns the first one that is not.
fn row_of<K: Copy + Ord>(rows: &mut BTreeMap<K, SampleRow>, number: K, next: K) -> &mut SampleRow {
    let first = rows.first_key_value().map_or(next, |(first, _)| *first);
    rows.entry(if number < next { first } else { number }).or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;
    use crate::record::{Counter, Gauge, Recorder, Times};
    use crate::result::{ColumnKind, Highest, Sample, to_json_line};

    /// Counters and times of one process.
    struct Process {
        recorder: Recorder,
        errors: Counter,
        connect: Times,
    }

    impl Process {
        fn new() -> Self {
            let it = Self {
                recorder: Recorder::starting_now(),
                errors: Counter::default(),
                connect: Times::default(),
            };
            it.recorder.counter("errors", &it.errors);
            it.recorder.times("connect_ms", &it.connect);
            it
        }

        /// Returns the sample taken at the end of this second, as the parent receives it.
        fn sample(&self, second: u32, is_last: bool) -> WorkerSample {
            let values = Values { t: Highest(second.into()), ..self.recorder.sample() };
            let number = SampleNumber::Timed { second: second.into(), nth: 0 };
            let sample = WorkerSample { number, is_fast: false, is_last, values };
            serde_json::from_str(&to_json_line(&sample)).expect("it was just serialised")
        }
    }

    /// Returns the columns of a series, by name.
    fn columns(series: &Series) -> BTreeMap<String, Vec<Option<f64>>> {
        series.columns().iter().map(|column| (column.name.clone(), column.values.clone())).collect()
    }

    #[test]
    fn the_series_of_the_workers_is_that_of_all_samples() {
        const PARTS: usize = 4;
        const SECONDS: u32 = 20;
        let seed = std::env::var("ENCKE_SEED")
            .map_or_else(|_| rand::random(), |seed| seed.parse().expect("it is a number"));
        println!("ENCKE_SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let (whole, parts) = (Process::new(), [(); PARTS].map(|()| Process::new()));
        let mut sent: Vec<Vec<WorkerSample>> = vec![Vec::new(); PARTS];
        let (mut rows, mut series) = (Rows::new(PARTS), Series::default());
        for second in 1..=SECONDS {
            for _ in 0..random.random_range(0..500) {
                let part = random.random_range(0..PARTS);
                // Draw times from a microsecond to over an hour.
                let time = Duration::from_secs_f64(10_f64.powf(random.random_range(-6.0..4.0)));
                for process in [&whole, &parts[part]] {
                    process.errors.increment();
                    process.connect.record(time);
                }
            }
            for (part, sent) in parts.iter().zip(&mut sent) {
                sent.push(part.sample(second, second == SECONDS));
            }
            drop(whole.recorder.sample());
            series.push(&Sample { t: f64::from(second), ..whole.recorder.last() });
        }
        // Samples arrive in any order, except that the samples of one worker stay in order.
        let mut sent: Vec<_> = sent.into_iter().map(Vec::into_iter).collect();
        while sent.iter().any(|child| child.len() > 0) {
            let child = random.random_range(0..PARTS);
            if let Some(sample) = sent[child].next() {
                rows.add(child, sample);
            }
        }
        let merged = rows.into_series();
        assert_eq!(merged.t(), series.t());
        assert_eq!(columns(&merged), columns(&series));
    }

    #[test]
    fn a_second_is_complete_when_all_workers_have_sent_it_or_ended() {
        let parts = [Process::new(), Process::new()];
        let mut rows = Rows::new(2);
        for (child, second, is_last, finished) in
            [(0, 1, false, 0), (0, 2, false, 0), (1, 1, false, 1), (1, 2, true, 2), (0, 3, false, 3)]
        {
            parts[child].errors.increment();
            rows.add(child, parts[child].sample(second, is_last));
            assert_eq!(rows.series.t().len(), finished, "{child} has sent {second}");
        }
        let series = rows.into_series();
        let errors = &series.column(ColumnKind::Count, "errors").expect("the value exists").values;
        assert_eq!(*errors, [Some(2.0), Some(2.0), Some(1.0)]);
    }

    #[test]
    fn a_skipped_second_keeps_the_last_gauges() {
        let parts = [Process::new(), Process::new()];
        let backlogs = [Gauge::default(), Gauge::default()];
        for (part, backlog) in parts.iter().zip(&backlogs) {
            part.recorder.gauge("backlog", backlog);
            backlog.set(Some(5.0));
        }
        let mut rows = Rows::new(2);
        for (child, second, is_last) in
            [(0, 1, false), (1, 1, false), (0, 2, false), (0, 3, false), (1, 3, true), (0, 4, true)]
        {
            rows.add(child, parts[child].sample(second, is_last));
        }
        let series = rows.into_series();
        let backlog = &series.column(ColumnKind::Gauge, "backlog").expect("the value exists").values;
        assert_eq!(*backlog, [Some(10.0); 4]);
    }

    #[test]
    fn a_silent_worker_delays_rows_by_at_most_a_minute() {
        let parts = [Process::new(), Process::new()];
        let mut rows = Rows::new(2);
        for second in 1..=100 {
            parts[0].errors.increment();
            rows.add(0, parts[0].sample(second, false));
            assert!(rows.timed.len() <= MAX_PENDING);
        }
        parts[1].errors.add(7);
        rows.add(1, parts[1].sample(1, true));
        let series = rows.into_series();
        let errors = &series.column(ColumnKind::Count, "errors").expect("the value exists").values;
        assert_eq!(errors.iter().flatten().sum::<f64>(), 107.0);
        assert_eq!(errors[40], Some(8.0), "it counts for the first unfinished second");
    }

    #[test]
    fn a_drop_on_both_sides_of_a_second_is_visible() {
        let timed = |second, nth| SampleNumber::Timed { second, nth };
        let requested = SampleNumber::Requested;
        let samples = [
            [
                (timed(1, 0), 1.0, 5.0),
                (requested(1), 1.99, 5.0),
                (requested(2), 1.995, 0.0),
                (timed(2, 0), 2.0, 1.0),
            ],
            [
                (timed(1, 0), 1.0, 5.0),
                (timed(2, 0), 2.0, 5.0),
                (requested(1), 2.01, 5.0),
                (requested(2), 2.02, 0.0),
            ],
        ];
        let mut rows = Rows::new(2);
        for (worker, samples) in samples.into_iter().enumerate() {
            let process = Process::new();
            let open = Gauge::default();
            process.recorder.gauge("open", &open);
            for (number, t, level) in
                samples.into_iter().chain([(timed(2, 1), 2.12, 5.0), (timed(3, 0), 2.5, 5.0)])
            {
                open.set(Some(level));
                process.errors.increment();
                let values = Values { t: Highest(t), ..process.recorder.sample() };
                rows.add(worker, WorkerSample { number, is_fast: t > 1.5, is_last: t >= 2.5, values });
            }
        }
        let series = rows.into_series();
        assert_eq!(series.t(), [1.0, 2.0, 2.01, 2.02, 2.12, 2.5]);
        let column = |kind, name| &series.column(kind, name).expect("the value exists").values;
        let open: Vec<f64> = column(ColumnKind::Gauge, "open").iter().copied().flatten().collect();
        assert_eq!(open, [10.0, 6.0, 10.0, 0.0, 10.0, 10.0]);
        assert_eq!(column(ColumnKind::Count, "errors").iter().flatten().sum::<f64>(), 12.0);
    }
}
