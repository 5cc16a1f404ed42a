//! The series of the whole run, from the samples of its workers: look by look, as if one process had sampled all.

use std::collections::BTreeMap;

use super::message::{LookNumber, WorkerSample};
use crate::result::{Series, Sum as _, Values};

/// Looks that not all workers have sent yet. A later sample counts for the first of these.
const MAX_PENDING: usize = 60;

/// One look at all workers.
#[derive(Debug, Default)]
struct Row {
    is_close: bool,
    /// The last of each worker that has sent some.
    gauges: BTreeMap<usize, Values>,
    /// All the rest.
    values: Values,
}

/// What came last from a worker: the highest numbers after its last sample.
#[derive(Clone, Debug, Default)]
struct Sent {
    timed: Timed,
    asked: u64,
    /// One that was held up may leave out a second, and still has them.
    gauges: Values,
}

/// A second, and the number of the look after its end.
type Timed = (u64, u64);

#[derive(Debug)]
pub(super) struct Rows {
    sent: Vec<Sent>,
    timed: BTreeMap<Timed, Row>,
    /// Those that the scenario has asked for, which may be before the end of a second in one worker and after it in another.
    asked: BTreeMap<u64, Row>,
    /// The first looks that are not in the series yet.
    next_timed: Timed,
    next_asked: u64,
    series: Series,
}

impl Rows {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            sent: vec![Sent::default(); workers],
            timed: BTreeMap::new(),
            asked: BTreeMap::new(),
            next_timed: (1, 0),
            next_asked: 1,
            series: Series::default(),
        }
    }

    /// Adds one more sample of a worker, whose numbers grow.
    pub(super) fn add(&mut self, worker: usize, sample: WorkerSample) {
        let WorkerSample { look, is_close, is_last, mut values } = sample;
        let sent = &mut self.sent[worker];
        let row = match look {
            LookNumber::Timed { second, nth } => {
                sent.timed = (second, nth);
                row_of(&mut self.timed, sent.timed, self.next_timed)
            }
            LookNumber::Asked(number) => {
                sent.asked = number;
                row_of(&mut self.asked, number, self.next_asked)
            }
        };
        if is_last {
            (sent.timed, sent.asked) = ((u64::MAX, u64::MAX), u64::MAX);
        }
        sent.gauges = values.take_gauges();
        row.is_close |= is_close;
        row.gauges.insert(worker, sent.gauges.clone());
        row.values.add(values);
        let timed = self.sent.iter().map(|sent| sent.timed).min().unwrap_or_default();
        let asked = self.sent.iter().map(|sent| sent.asked).min().unwrap_or_default();
        while self.finish_first(timed, asked) {}
    }

    /// Puts the first row that is complete into the series: of looks up to these, or of any if too many are pending.
    fn finish_first(&mut self, timed: Timed, asked: u64) -> bool {
        let is_full = self.timed.len() > MAX_PENDING;
        let first_timed = self.timed.first_key_value().filter(|(look, _)| **look <= timed || is_full);
        let first_asked = self.asked.first_key_value().filter(|(look, _)| **look <= asked || is_full);
        let row = match (first_timed, first_asked) {
            (None, None) => return false,
            (Some((_, timed)), Some((_, asked))) if timed.values.t.0 < asked.values.t.0 => self.take_timed(),
            (Some(_), None) => self.take_timed(),
            (_, Some(_)) => self.take_asked(),
        };
        let Some(Row { is_close, mut gauges, mut values }) = row else { return false };
        for (worker, sent) in self.sent.iter().enumerate() {
            values.add(gauges.remove(&worker).unwrap_or_else(|| sent.gauges.clone()));
        }
        if is_close {
            self.series.push_apart(&values.to_sample());
        } else {
            self.series.push(&values.to_sample());
        }
        true
    }

    fn take_timed(&mut self) -> Option<Row> {
        let ((second, nth), row) = self.timed.pop_first()?;
        self.next_timed = (second, nth + 1);
        Some(row)
    }

    fn take_asked(&mut self) -> Option<Row> {
        let (number, row) = self.asked.pop_first()?;
        self.next_asked = number + 1;
        Some(row)
    }

    /// The series of all samples.
    pub(super) fn into_series(mut self) -> Series {
        while self.finish_first((u64::MAX, u64::MAX), u64::MAX) {}
        self.series
    }
}

/// That of a look, or if that is in the series already, the first one that is not.
fn row_of<K: Copy + Ord>(rows: &mut BTreeMap<K, Row>, look: K, next: K) -> &mut Row {
    let first = rows.first_key_value().map_or(next, |(first, _)| *first);
    rows.entry(if look < next { first } else { look }).or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;
    use crate::record::{Counter, Gauge, Recorder, Times};
    use crate::result::{Highest, Kind, Sample, to_json_line};

    /// What one process counts and times.
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

        /// As it is received, at the end of this second.
        fn sample(&self, second: u32, is_last: bool) -> WorkerSample {
            let values = Values { t: Highest(second.into()), ..self.recorder.sample() };
            let look = LookNumber::Timed { second: second.into(), nth: 0 };
            let sample = WorkerSample { look, is_close: false, is_last, values };
            serde_json::from_str(&to_json_line(&sample)).expect("it was just written")
        }
    }

    /// Everything of a series, by name.
    fn columns(series: &Series) -> BTreeMap<String, Vec<Option<f64>>> {
        series.columns().iter().map(|column| (column.name.clone(), column.values.clone())).collect()
    }

    #[test]
    fn the_series_of_the_workers_is_that_of_all_samples() {
        const PARTS: usize = 4;
        const SECONDS: u32 = 20;
        let seed = std::env::var("ENCKE_SEED")
            .map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
        println!("ENCKE_SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let (whole, parts) = (Process::new(), [(); PARTS].map(|()| Process::new()));
        let mut sent: Vec<Vec<WorkerSample>> = vec![Vec::new(); PARTS];
        let (mut rows, mut series) = (Rows::new(PARTS), Series::default());
        for second in 1..=SECONDS {
            for _ in 0..random.random_range(0..500) {
                let part = random.random_range(0..PARTS);
                // From a microsecond to an hour and beyond.
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
        // They come as they come, but each child's in order.
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
    fn a_second_is_complete_when_all_have_sent_it_or_have_ended() {
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
        let errors = &series.column(Kind::Count, "errors").expect("it is there").values;
        assert_eq!(*errors, [Some(2.0), Some(2.0), Some(1.0)]);
    }

    #[test]
    fn a_worker_that_leaves_out_a_second_keeps_its_gauges() {
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
        let backlog = &series.column(Kind::Gauge, "backlog").expect("it is there").values;
        assert_eq!(*backlog, [Some(10.0); 4]);
    }

    #[test]
    fn a_silent_worker_delays_no_more_than_a_minute_and_no_count_is_lost() {
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
        let errors = &series.column(Kind::Count, "errors").expect("it is there").values;
        assert_eq!(errors.iter().flatten().sum::<f64>(), 107.0);
        assert_eq!(errors[40], Some(8.0), "for the first second that was left");
    }

    #[test]
    fn a_drop_shows_though_the_workers_drop_on_two_sides_of_a_second() {
        let timed = |second, nth| LookNumber::Timed { second, nth };
        let asked = LookNumber::Asked;
        let looks = [
            [(timed(1, 0), 1.0, 5.0), (asked(1), 1.99, 5.0), (asked(2), 1.995, 0.0), (timed(2, 0), 2.0, 1.0)],
            [(timed(1, 0), 1.0, 5.0), (timed(2, 0), 2.0, 5.0), (asked(1), 2.01, 5.0), (asked(2), 2.02, 0.0)],
        ];
        let mut rows = Rows::new(2);
        for (worker, looks) in looks.into_iter().enumerate() {
            let process = Process::new();
            let open = Gauge::default();
            process.recorder.gauge("open", &open);
            for (look, t, level) in
                looks.into_iter().chain([(timed(2, 1), 2.12, 5.0), (timed(3, 0), 2.5, 5.0)])
            {
                open.set(Some(level));
                process.errors.increment();
                let values = Values { t: Highest(t), ..process.recorder.sample() };
                rows.add(worker, WorkerSample { look, is_close: t > 1.5, is_last: t >= 2.5, values });
            }
        }
        let series = rows.into_series();
        assert_eq!(series.t(), [1.0, 2.0, 2.01, 2.02, 2.12, 2.5]);
        let column = |kind, name| &series.column(kind, name).expect("it is there").values;
        let open: Vec<f64> = column(Kind::Gauge, "open").iter().copied().flatten().collect();
        assert_eq!(open, [10.0, 6.0, 10.0, 0.0, 10.0, 10.0]);
        assert_eq!(column(Kind::Count, "errors").iter().flatten().sum::<f64>(), 12.0);
    }
}
