//! Messages from a worker to its parent, one JSON value per line.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::result::{Ending, RunInfo, RunPhase, Values, seconds};
use crate::scenario::{Measured, Numbers};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum WorkerMessage {
    /// The worker is ready and waits for the start time.
    Ready,
    /// Log line for the user.
    Log(String),
    Phase(WorkerPhase),
    Sample(Box<WorkerSample>),
    /// Last message of a worker.
    Result(Box<WorkerResult>),
}

/// Start of a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WorkerPhase {
    /// Number of the phase, counted from 1.
    pub(super) number: usize,
    pub(super) name: String,
    pub(super) is_brief: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WorkerSample {
    pub(super) number: SampleNumber,
    /// Whether the sample was taken in a brief phase.
    pub(super) is_fast: bool,
    pub(super) is_last: bool,
    pub(super) values: Values,
}

/// Identifies a sample. All workers take the same samples in the same order, at about the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SampleNumber {
    /// The sample at the end of this second, counted from 1, or, in a brief phase, the n-th sample after
    /// that.
    Timed { second: u64, nth: u64 },
    /// A sample requested by the scenario, for example before a drop. Requests are counted from 1.
    Requested(u64),
}

/// Everything that a worker measured, except the series, which the parent builds from the samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WorkerResult {
    interrupted: bool,
    elapsed_seconds: f64,
    phases: Vec<RunPhase>,
    pub(super) numbers: Numbers,
}

impl WorkerResult {
    pub(super) fn of(measured: Measured) -> Self {
        let Measured { run, numbers, .. } = measured;
        Self {
            interrupted: run.ending == Ending::Interrupted,
            elapsed_seconds: seconds(run.elapsed),
            phases: run.phases,
            numbers,
        }
    }
}

/// Combines the runs of all workers into one. `None` without workers.
pub(super) fn merge_runs(results: &[WorkerResult], started_at: SystemTime) -> Option<RunInfo> {
    let elapsed = results.iter().map(|result| result.elapsed_seconds).fold(0.0, f64::max);
    let interrupted = results.iter().any(|result| result.interrupted);
    Some(RunInfo {
        started_at,
        elapsed: Duration::try_from_secs_f64(elapsed).unwrap_or_default(),
        ending: if interrupted { Ending::Interrupted } else { Ending::Finished },
        phases: results.first()?.phases.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::record::{Recorder, Times};
    use crate::result::{Distribution, Group, sum, to_json_line};

    fn times(micros: impl IntoIterator<Item = u64>) -> Distribution {
        let times = Times::default();
        micros.into_iter().for_each(|micros| times.record(Duration::from_micros(micros)));
        times.summary()
    }

    fn result(connects: &[u64], codes: &[(&str, u64)], took: Option<f64>, cpu: f64) -> WorkerResult {
        let connect = Group::of(&BTreeMap::from([("c", times(connects.iter().copied()))]));
        let connect = connect.to_json_line().replace(r#"{"c":"#, "");
        let connect = connect.trim_end_matches('}').to_owned() + "}";
        let codes: BTreeMap<_, _> = codes.iter().copied().collect();
        let (count, codes, took) = (connects.len(), to_json_line(&codes), to_json_line(&took));
        let text = format!(
            r#"{{"interrupted":true,"elapsed_seconds":1.5,
                "phases":[{{"name":"hold","start_seconds":0.0,"end_seconds":1.5,"duration_seconds":1.5}}],
                "numbers":{{"outcome":{{"storm":{{"connected":{count},"errors":0,"dropped":0,"resumed":0,"all_back_seconds":{took},
                    "unexpected_closes":0,"pings":0,"connect_ms":{connect},"connect_from_start_ms":{connect},"resume_ms":{connect},"resume_from_start_ms":{connect},
                    "close_codes":{codes},"frame_faults":{{}}}}}},
                "error_kinds":{{}},
                "traffic":{{"connects":0,"messages":0,"pings":0,"closes":0,"frame_faults":0,"connections_max":0}},
                "loadgen":{{"cpu_seconds":{cpu},"peak_resident_bytes":null,"lag_ms_max":{cpu},
                    "cores":{{"mean":{cpu},"peak":null}},
                    "resident_bytes":{{"before":1,"steady":null,"peak":2,"after":3}},
                    "bytes_per_connection":{cpu},"cpu_ms_per_ping":null}}}}}}"#
        );
        serde_json::from_str(&text).expect("it is a result message")
    }

    #[test]
    fn a_result_is_read_as_it_was_sent() {
        let sent = WorkerMessage::Result(Box::new(result(&[7000], &[("4000", 2)], None, 1.5)));
        let line = to_json_line(&sent);
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<WorkerMessage>(&line).expect("it was just serialised"), sent);
        let WorkerMessage::Result(result) = sent else { panic!("it is a result message") };
        let run = merge_runs(&[*result], SystemTime::now()).expect("there is a worker");
        assert_eq!((run.elapsed, run.ending), (Duration::from_millis(1500), Ending::Interrupted));
        assert_eq!(run.phases, [RunPhase::new("hold".to_owned(), 0.0, 1.5)]);
    }

    #[test]
    fn counts_and_histograms_add_up_exactly() {
        let (odd, even): (Vec<u64>, Vec<u64>) = (1..=9999).partition(|micros| micros % 2 == 1);
        let all: Vec<u64> = (1..=9999).collect();
        let numbers = |result: WorkerResult| result.numbers;
        let merged = sum([
            numbers(result(&odd, &[("4000", 2), ("4002", 1)], None, 1.5)),
            numbers(result(&even, &[("1006", 7), ("4000", 40)], Some(2.5), 4.5)),
        ])
        .expect("there are two values");
        let whole = numbers(result(&all, &[("4000", 42), ("4002", 1), ("1006", 7)], Some(2.5), 0.0));
        assert_eq!(merged.outcome, whole.outcome, "equal to the last bucket");
        let loadgen = Group::of(&merged.loadgen);
        for (path, number) in [
            ("cpu_seconds", 6.0),
            ("lag_ms_max", 4.5),
            ("cores.mean", 6.0),
            ("resident_bytes.peak", 4.0),
            ("bytes_per_connection", 3.0),
        ] {
            assert_eq!(loadgen.number(path), Ok(number), "{path}");
        }
    }

    #[test]
    fn a_sample_is_read_with_its_histograms() {
        let recorder = Recorder::starting_now();
        let connect = Times::default();
        connect.record(Duration::from_millis(7));
        recorder.times("connect_ms", &connect);
        recorder.gauge("backlog", &crate::record::Gauge::default());
        let values = recorder.sample();
        assert_eq!((values.times.len(), values.gauge("backlog")), (1, None));
        let sent = WorkerMessage::Sample(Box::new(WorkerSample {
            number: SampleNumber::Timed { second: 2, nth: 0 },
            is_fast: false,
            is_last: true,
            values,
        }));
        let line = to_json_line(&sent);
        assert_eq!(serde_json::from_str::<WorkerMessage>(&line).expect("it was just serialised"), sent);
    }

    #[test]
    fn invalid_lines_are_refused() {
        assert_eq!(
            serde_json::from_str::<WorkerMessage>(r#""ready""#).expect("it is a message"),
            WorkerMessage::Ready
        );
        let log = WorkerMessage::Log("x".to_owned());
        assert_eq!(serde_json::from_str::<WorkerMessage>(r#"{"log":"x"}"#).expect("it is a message"), log);
        let good = to_json_line(&result(&[1], &[], None, 1.5));
        let other_type =
            format!(r#"{{"result":{}}}"#, good.replace(r#""connected":1"#, r#""connected":"one""#));
        for bad in [
            "",
            "x",
            "{}",
            "[]",
            r#"{"result":{}}"#,
            r#"{"log":1}"#,
            r#"{"sample":{"is_last":true}}"#,
            r#"{"phase":{"name":"x"}}"#,
            &other_type,
        ] {
            assert!(serde_json::from_str::<WorkerMessage>(bad).is_err(), "{bad}");
        }
    }
}
