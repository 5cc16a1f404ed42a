//! What a child tells its parent: one JSON object a line.

use std::time::{Duration, SystemTime};

use crate::record::Timed;
use crate::result::Measured;
use crate::result::{Distribution, Ending, Field, Group, Kind, Phase, Run, Sample, Series, seconds};

#[derive(Debug)]
pub(super) enum Line {
    /// It waits for the instant to begin.
    Ready,
    /// To be told to the user.
    Log(String),
    Sample(WorkerSample),
    /// All of it, at the end.
    Measured(Box<Measured>),
}

/// One sample of a child's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WorkerSample {
    pub(super) phase: String,
    /// Which second it ends, counted from 1.
    pub(super) second: u64,
    /// No other one follows.
    pub(super) is_last: bool,
    pub(super) sample: Sample,
    /// All times of it. What can be said of them is not in the sample once it is told.
    pub(super) timed: Timed,
}

impl WorkerSample {
    pub(super) fn to_json(&self) -> Group {
        let of_kind = |kind: Kind| -> Group {
            let values =
                self.sample.values.iter().filter(|(its, name, _)| *its == kind && !self.is_timed(name));
            values.map(|(_, name, value)| (name.clone(), (*value).into())).collect()
        };
        Group::default()
            .with("t", self.sample.t)
            .with("phase", self.phase.as_str())
            .with("second", self.second)
            .with("last", self.is_last)
            .with("gauges", of_kind(Kind::Gauge))
            .with("counts", of_kind(Kind::Count))
            .with(
                "timed",
                self.timed
                    .iter()
                    .map(|(name, times)| (name.clone(), times.to_json().into()))
                    .collect::<Group>(),
            )
    }

    /// Whether this is the count of something timed.
    fn is_timed(&self, name: &str) -> bool {
        name.strip_suffix(".count").is_some_and(|name| self.timed.iter().any(|(timed, _)| timed == name))
    }

    fn from_json(group: &Group) -> Option<Self> {
        let mut sample = Sample { t: group.get("t")?.as_number()?, values: Vec::new() };
        for (kind, name) in [(Kind::Gauge, "gauges"), (Kind::Count, "counts")] {
            let fields = group.get(name)?.as_group()?;
            sample
                .values
                .extend(fields.iter().map(|(name, field)| (kind, name.to_owned(), field.as_number())));
        }
        let timed = group.get("timed")?.as_group()?.iter();
        let timed = timed.map(|(name, field)| Some((name.to_owned(), Distribution::from_json(field)?)));
        Some(Self {
            phase: group.get("phase")?.as_text()?.to_owned(),
            second: if let Field::Count(second) = group.get("second")? { *second } else { return None },
            is_last: *group.get("last")? == Field::Flag(true),
            sample,
            timed: timed.collect::<Option<_>>()?,
        })
    }
}

impl Line {
    /// None if this is no line of a child's.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let group: Group = serde_json::from_str(text).ok()?;
        if group.get("ready").is_some() {
            return Some(Self::Ready);
        }
        if let Some(log) = group.get("log") {
            return Some(Self::Log(log.as_text()?.to_owned()));
        }
        if let Some(measured) = group.get("measured") {
            return read_measured(measured.as_group()?).map(|it| Self::Measured(Box::new(it)));
        }
        WorkerSample::from_json(&group).map(Self::Sample)
    }
}

/// The line of [`Line::Measured`]. The series is told by its samples.
pub(super) fn measured_line(measured: &Measured) -> String {
    let Measured { run, numbers, .. } = measured;
    let inner = Group::default()
        .with("interrupted", run.ending == Ending::Interrupted)
        .with("elapsed_seconds", seconds(run.elapsed))
        .with("phases", run.phases.iter().map(Phase::to_json).collect::<Vec<_>>())
        .with("numbers", whole(numbers.clone()));
    Group::default().with("measured", inner).to_json_line()
}

fn read_measured(group: &Group) -> Option<Measured> {
    let ending = match group.get("interrupted")? {
        Field::Flag(true) => Ending::Interrupted,
        _ => Ending::Finished,
    };
    let elapsed = Duration::try_from_secs_f64(group.get("elapsed_seconds")?.as_number()?).ok()?;
    let phases = group.get("phases")?.as_list()?.iter().map(Phase::from_json).collect::<Option<_>>()?;
    let run = Run { started_at: SystemTime::now(), elapsed, ending, phases };
    let numbers = read_whole(group.get("numbers")?.as_group()?.clone());
    Some(Measured { run, numbers, series: Series::default() })
}

/// With whole histograms in place of their percentiles.
fn whole(group: Group) -> Group {
    let write = |field| match field {
        Field::Group(group) => Field::Group(whole(group)),
        Field::Distribution(distribution) => distribution.to_json().into(),
        other => other,
    };
    group.into_iter().map(|(name, field)| (name, write(field))).collect()
}

fn read_whole(group: Group) -> Group {
    let read = |field| match Distribution::from_json(&field) {
        Some(distribution) => distribution.into(),
        None => match field {
            Field::Group(group) => Field::Group(read_whole(group)),
            other => other,
        },
    };
    group.into_iter().map(|(name, field)| (name, read(field))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Times;

    #[test]
    fn what_was_measured_is_read_as_it_was() {
        let times = Times::default();
        times.record(Duration::from_millis(7));
        let numbers = Group::default()
            .with("connected", 3)
            .with("seconds", 2.0)
            .with("nothing", None::<f64>)
            .with("inner", Group::default().with("connect_ms", times.summary()));
        let phases = vec![Phase { name: "hold".to_owned(), start: 0.0, end: 1.5 }];
        let run = Run {
            started_at: SystemTime::now(),
            elapsed: Duration::from_millis(1500),
            ending: Ending::Interrupted,
            phases: phases.clone(),
        };
        let line = measured_line(&Measured { run, numbers: numbers.clone(), series: Series::default() });
        let Some(Line::Measured(read)) = Line::parse(&line) else { panic!("not read: {line}") };
        assert_eq!(read.numbers, numbers);
        assert_eq!((read.run.phases, read.run.ending), (phases, Ending::Interrupted));
        assert_eq!(read.run.elapsed, Duration::from_millis(1500));
    }

    #[test]
    fn a_sample_is_read_with_all_that_was_timed() {
        let times = Times::default();
        times.record(Duration::from_millis(7));
        let mut sample = Sample { t: 1.5, values: Vec::new() };
        sample.values.push((Kind::Gauge, "connections".to_owned(), Some(3.0)));
        sample.values.push((Kind::Gauge, "backlog".to_owned(), None));
        sample.values.push((Kind::Count, "errors".to_owned(), Some(2.0)));
        let timed = vec![("connect_ms".to_owned(), times.summary())];
        let told = WorkerSample { phase: "hold".to_owned(), second: 2, is_last: true, sample, timed };
        let mut with_times = told.clone();
        with_times.sample.add_times("connect_ms", &told.timed[0].1);
        for told_too in [&told, &with_times] {
            let line = told_too.to_json().to_json_line();
            let Some(Line::Sample(read)) = Line::parse(&line) else { panic!("not read: {line}") };
            assert_eq!(read, told);
        }
    }

    #[test]
    fn other_lines_are_told_apart() {
        assert!(matches!(Line::parse(r#"{"ready":true}"#), Some(Line::Ready)));
        assert!(matches!(Line::parse(r#"{"log":"x"}"#), Some(Line::Log(text)) if text == "x"));
        for bad in ["", "x", "{}", "[]", r#"{"measured":{}}"#, r#"{"log":1}"#, r#"{"t":1,"phase":"x"}"#] {
            assert!(Line::parse(bad).is_none(), "{bad}");
        }
    }
}
