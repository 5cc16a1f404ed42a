//! The series of the whole run, from the samples of its parts: second by second, each as if all had been in one process.

use std::collections::BTreeMap;

use super::line::WorkerSample;
use crate::record::Timed;
use crate::result::{Distribution, Kind, Sample, Series};

/// Seconds that not all children have told yet. What comes later than that counts for the first of these.
const MAX_PENDING: usize = 60;

/// One second of all children.
#[derive(Debug, Default)]
struct Row {
    t: f64,
    told_by: Vec<usize>,
    /// Gauges and counts, added up.
    values: Vec<(Kind, String, Option<f64>)>,
    timed: Timed,
}

#[derive(Debug)]
pub(super) struct Rows {
    /// The second that each child has told last; the highest number when it will tell no more.
    told: Vec<u64>,
    /// What each child's gauges were then: a child that is held up may leave out a second, and is there all the same.
    gauges: Vec<Vec<(Kind, String, Option<f64>)>>,
    pending: BTreeMap<u64, Row>,
    /// The first second that is not in the series yet.
    next: u64,
    series: Series,
}

impl Rows {
    pub(super) fn new(children: usize) -> Self {
        Self {
            told: vec![0; children],
            gauges: vec![Vec::new(); children],
            pending: BTreeMap::new(),
            next: 1,
            series: Series::default(),
        }
    }

    /// A child has told one more sample. Its seconds grow.
    pub(super) fn add(&mut self, child: usize, told: WorkerSample) -> Result<(), String> {
        self.told[child] = if told.is_last { u64::MAX } else { told.second };
        let gauges = told.sample.values.iter().filter(|(kind, ..)| *kind == Kind::Gauge);
        self.gauges[child] = gauges.cloned().collect();
        let row = self.pending.entry(told.second.max(self.next)).or_default();
        row.told_by.push(child);
        row.add(told)?;
        let told_by_all = self.told.iter().copied().min().unwrap_or(u64::MAX);
        while let Some(row) = self.pending.first_entry()
            && (*row.key() <= told_by_all || self.pending.len() > MAX_PENDING)
        {
            self.finish_first();
        }
        Ok(())
    }

    fn finish_first(&mut self) {
        if let Some((second, mut row)) = self.pending.pop_first() {
            self.next = second + 1;
            for (child, gauges) in self.gauges.iter().enumerate() {
                if !row.told_by.contains(&child) {
                    row.add_values(gauges.clone());
                }
            }
            self.series.push(&row.into_sample());
        }
    }

    /// Of all that was told.
    pub(super) fn into_series(mut self) -> Series {
        while !self.pending.is_empty() {
            self.finish_first();
        }
        self.series
    }
}

impl Row {
    fn add(&mut self, told: WorkerSample) -> Result<(), String> {
        self.t = self.t.max(told.sample.t);
        self.add_values(told.sample.values);
        for (name, times) in told.timed {
            match self.timed.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => {
                    let both = Distribution::sum_of(&[sum, &times]);
                    *sum = both.ok_or_else(|| format!("the processes time {name} in different ways"))?;
                }
                None => self.timed.push((name, times)),
            }
        }
        Ok(())
    }

    fn add_values(&mut self, values: Vec<(Kind, String, Option<f64>)>) {
        for (kind, name, value) in values {
            match self.values.iter_mut().find(|(its, known, _)| *its == kind && *known == name) {
                Some((_, _, sum)) => *sum = kind.sum(&name, *sum, value),
                None => self.values.push((kind, name, value)),
            }
        }
    }

    fn into_sample(self) -> Sample {
        let mut sample = Sample { t: self.t, values: self.values };
        self.timed.iter().for_each(|(name, times)| sample.add_times(name, times));
        sample
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::super::line::Line;
    use super::*;
    use crate::record::{Counter, Gauge, Recorder, Times};

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

        /// As it would be told, at the end of this second.
        fn told(&self, second: u32, is_last: bool) -> WorkerSample {
            let timed = self.recorder.sample();
            let sample = Sample { t: f64::from(second), ..self.recorder.last() };
            let told = WorkerSample { phase: String::new(), second: second.into(), is_last, sample, timed };
            match Line::parse(&told.to_json().to_json_line()) {
                Some(Line::Sample(read)) => read,
                other => panic!("not read: {other:?}"),
            }
        }
    }

    /// Everything of a series, by name.
    fn columns(series: &Series) -> BTreeMap<String, Vec<Option<f64>>> {
        series.columns().iter().map(|column| (column.name.clone(), column.values.clone())).collect()
    }

    #[test]
    fn the_series_of_the_parts_is_that_of_all_samples() {
        const PARTS: usize = 4;
        const SECONDS: u32 = 20;
        let seed = std::env::var("ENCKE_SEED")
            .map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
        println!("ENCKE_SEED={seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let (whole, parts) = (Process::new(), [(); PARTS].map(|()| Process::new()));
        let mut told: Vec<Vec<WorkerSample>> = vec![Vec::new(); PARTS];
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
            for (part, told) in parts.iter().zip(&mut told) {
                told.push(part.told(second, second == SECONDS));
            }
            drop(whole.recorder.sample());
            series.push(&Sample { t: f64::from(second), ..whole.recorder.last() });
        }
        // They come as they come, but each child's in order.
        let mut told: Vec<_> = told.into_iter().map(Vec::into_iter).collect();
        while told.iter().any(|child| child.len() > 0) {
            let child = random.random_range(0..PARTS);
            if let Some(sample) = told[child].next() {
                rows.add(child, sample).expect("they are alike");
            }
        }
        let merged = rows.into_series();
        assert_eq!(merged.t(), series.t());
        assert_eq!(columns(&merged), columns(&series));
    }

    #[test]
    fn a_second_stands_when_all_have_told_it_or_will_tell_no_more() {
        let parts = [Process::new(), Process::new()];
        let mut rows = Rows::new(2);
        for (child, second, is_last, finished) in
            [(0, 1, false, 0), (0, 2, false, 0), (1, 1, false, 1), (1, 2, true, 2), (0, 3, false, 3)]
        {
            parts[child].errors.increment();
            rows.add(child, parts[child].told(second, is_last)).expect("they are alike");
            assert_eq!(rows.series.t().len(), finished, "{child} has told {second}");
        }
        let series = rows.into_series();
        let errors = &series.column(Kind::Count, "errors").expect("it is told").values;
        assert_eq!(*errors, [Some(2.0), Some(2.0), Some(1.0)]);
    }

    #[test]
    fn who_leaves_out_a_second_is_there_all_the_same() {
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
            rows.add(child, parts[child].told(second, is_last)).expect("they are alike");
        }
        let series = rows.into_series();
        let backlog = &series.column(Kind::Gauge, "backlog").expect("it is told").values;
        assert_eq!(*backlog, [Some(10.0); 4]);
    }

    #[test]
    fn who_tells_nothing_holds_up_no_more_than_a_minute_and_no_count_is_lost() {
        let parts = [Process::new(), Process::new()];
        let mut rows = Rows::new(2);
        for second in 1..=100 {
            parts[0].errors.increment();
            rows.add(0, parts[0].told(second, false)).expect("they are alike");
            assert!(rows.pending.len() <= MAX_PENDING);
        }
        parts[1].errors.add(7);
        rows.add(1, parts[1].told(1, true)).expect("they are alike");
        let series = rows.into_series();
        let errors = &series.column(Kind::Count, "errors").expect("it is told").values;
        assert_eq!(errors.iter().flatten().sum::<f64>(), 107.0);
        assert_eq!(errors[40], Some(8.0), "for the first second that was left");
    }
}
