//! The series of the whole run, from the samples of its workers: second by second, as if one process had sampled all.

use std::collections::BTreeMap;

use super::message::WorkerSample;
use crate::result::{Series, Sum as _, Values};

/// Seconds that not all workers have sent yet. A later sample counts for the first of these.
const MAX_PENDING: usize = 60;

/// One second of all workers.
#[derive(Debug, Default)]
struct Row {
    received_from: Vec<usize>,
    values: Values,
}

#[derive(Debug)]
pub(super) struct Rows {
    /// The second that each worker has sent last; the highest number after its last sample.
    seconds: Vec<u64>,
    /// The last gauges of each worker: one that was held up may leave out a second, and still has them.
    gauges: Vec<Values>,
    pending: BTreeMap<u64, Row>,
    /// The first second that is not in the series yet.
    next: u64,
    series: Series,
}

impl Rows {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            seconds: vec![0; workers],
            gauges: vec![Values::default(); workers],
            pending: BTreeMap::new(),
            next: 1,
            series: Series::default(),
        }
    }

    /// Adds one more sample of a worker, whose seconds grow.
    pub(super) fn add(&mut self, worker: usize, sample: WorkerSample) {
        self.seconds[worker] = if sample.is_last { u64::MAX } else { sample.second };
        self.gauges[worker] = sample.values.gauges_only();
        let row = self.pending.entry(sample.second.max(self.next)).or_default();
        row.received_from.push(worker);
        row.values.add(sample.values);
        let complete = self.seconds.iter().copied().min().unwrap_or(u64::MAX);
        while let Some(row) = self.pending.first_entry()
            && (*row.key() <= complete || self.pending.len() > MAX_PENDING)
        {
            self.finish_first();
        }
    }

    fn finish_first(&mut self) {
        if let Some((second, Row { received_from, mut values })) = self.pending.pop_first() {
            self.next = second + 1;
            for (worker, gauges) in self.gauges.iter().enumerate() {
                if !received_from.contains(&worker) {
                    values.add(gauges.clone());
                }
            }
            self.series.push(&values.to_sample());
        }
    }

    /// The series of all samples.
    pub(super) fn into_series(mut self) -> Series {
        while !self.pending.is_empty() {
            self.finish_first();
        }
        self.series
    }
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
            let sample = WorkerSample { phase: String::new(), second: second.into(), is_last, values };
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
            assert!(rows.pending.len() <= MAX_PENDING);
        }
        parts[1].errors.add(7);
        rows.add(1, parts[1].sample(1, true));
        let series = rows.into_series();
        let errors = &series.column(Kind::Count, "errors").expect("it is there").values;
        assert_eq!(errors.iter().flatten().sum::<f64>(), 107.0);
        assert_eq!(errors[40], Some(8.0), "for the first second that was left");
    }
}
