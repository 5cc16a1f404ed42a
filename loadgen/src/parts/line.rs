//! What a child tells its parent: one JSON object a line.

use std::time::{Duration, SystemTime};

use crate::result::{Distribution, Ending, Field, Group, Kind, Phase, Run, Sample, Series, seconds};
use crate::run::Measured;

#[derive(Debug)]
pub(super) enum Line {
    /// It waits for the instant to begin.
    Ready,
    /// To be told to the user.
    Log(String),
    Sample {
        phase: String,
        sample: Sample,
    },
    /// All of it, at the end.
    Measured(Box<Measured>),
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
        let phase = group.get("phase")?.as_text()?.to_owned();
        Some(Self::Sample { phase, sample: read_sample(&group)? })
    }
}

fn read_sample(group: &Group) -> Option<Sample> {
    let mut sample = Sample { t: group.get("t")?.as_number()?, values: Vec::new() };
    for (kind, name) in [(Kind::Gauge, "gauges"), (Kind::Count, "counts"), (Kind::Time, "times")] {
        let fields = group.get(name)?.as_group()?;
        sample.values.extend(fields.iter().map(|(name, field)| (kind, name.to_owned(), field.as_number())));
    }
    Some(sample)
}

/// The line of [`Line::Measured`].
pub(super) fn measured_line(measured: Measured) -> String {
    let Measured { run, numbers, series } = measured;
    let inner = Group::default()
        .with("interrupted", run.ending == Ending::Interrupted)
        .with("elapsed_seconds", seconds(run.elapsed))
        .with("phases", run.phases.iter().map(Phase::to_json).collect::<Vec<_>>())
        .with("numbers", whole(numbers))
        .with("series", series.to_json());
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
    Some(Measured { run, numbers, series: Series::from_json(group.get("series")?)? })
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
        let mut series = Series::default();
        series.push(&Sample { t: 1.0, values: vec![(Kind::Count, "errors".to_owned(), Some(2.0))] });
        let phases = vec![Phase { name: "hold".to_owned(), start: 0.0, end: 1.5 }];
        let run = Run {
            started_at: SystemTime::now(),
            elapsed: Duration::from_millis(1500),
            ending: Ending::Interrupted,
            phases: phases.clone(),
        };
        let line = measured_line(Measured { run, numbers: numbers.clone(), series: series.clone() });
        let Some(Line::Measured(read)) = Line::parse(&line) else { panic!("not read: {line}") };
        assert_eq!((read.numbers, read.series), (numbers, series));
        assert_eq!((read.run.phases, read.run.ending), (phases, Ending::Interrupted));
        assert_eq!(read.run.elapsed, Duration::from_millis(1500));
    }

    #[test]
    fn other_lines_are_told_apart() {
        let sample = r#"{"t":1.5,"phase":"hold","gauges":{"connections":3,"x":null},"counts":{},"times":{}}"#;
        let Some(Line::Sample { phase, sample }) = Line::parse(sample) else { panic!("it is a sample") };
        assert_eq!((phase.as_str(), sample.t, sample.get("connections")), ("hold", 1.5, Some(3.0)));
        assert!(matches!(Line::parse(r#"{"ready":true}"#), Some(Line::Ready)));
        assert!(matches!(Line::parse(r#"{"log":"x"}"#), Some(Line::Log(text)) if text == "x"));
        for bad in ["", "x", "{}", "[]", r#"{"measured":{}}"#, r#"{"log":1}"#, r#"{"t":1,"phase":"x"}"#] {
            assert!(Line::parse(bad).is_none(), "{bad}");
        }
    }
}
