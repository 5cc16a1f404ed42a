//! Encke's timer statistics, from `GET /api/timers` of its admin API.

use serde::{Deserialize, Serialize};

use crate::record::{Gauge, Recorder};

pub(super) const PATH: &str = "/api/timers";
/// Maximum number of levels with a curve. Additional levels are not plotted.
const MAX_LEVELS: usize = 16;

/// A response from the admin API. Percentiles and counts cover the time since the server's start.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(super) struct TimerReport {
    entries: u64,
    /// Number of entries in each level of the wheel, finest level first.
    levels: Vec<u64>,
    lateness: Lateness,
    dispatch: Dispatch,
    stalls: Stalls,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
struct Lateness {
    count: u64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
struct Dispatch {
    depth: u64,
    age_ms: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
struct Stalls {
    count: u64,
    stolen_ms: f64,
}

/// Timer statistics of a run.
#[derive(Debug)]
pub(super) struct TimersAccount {
    before: TimerReport,
    last: TimerReport,
    entries_peak: u64,
    depth_peak: u64,
    age_ms_peak: f64,
    missed: u64,
    gauges: Gauges,
}

#[derive(Debug)]
struct Gauges {
    entries: Gauge,
    levels: Vec<Gauge>,
    lateness_p99_ms: Gauge,
    lateness_max_ms: Gauge,
    dispatch_depth: Gauge,
    dispatch_age_ms: Gauge,
}

pub(super) fn parse(body: &[u8]) -> Result<TimerReport, String> {
    serde_json::from_slice(body).map_err(|error| format!("{PATH} returned an unexpected answer: {error}"))
}

impl TimersAccount {
    pub(super) fn new(before: TimerReport, recorder: &Recorder) -> Self {
        let gauge = |name: &str| {
            let gauge = Gauge::default();
            recorder.gauge(&format!("server.timers.{name}"), &gauge);
            gauge
        };
        let gauges = Gauges {
            entries: gauge("entries"),
            levels: (0..before.levels.len().min(MAX_LEVELS))
                .map(|level| gauge(&format!("level{level}")))
                .collect(),
            lateness_p99_ms: gauge("lateness_p99_ms"),
            lateness_max_ms: gauge("lateness_max_ms"),
            dispatch_depth: gauge("dispatch_depth"),
            dispatch_age_ms: gauge("dispatch_age_ms"),
        };
        Self {
            last: before.clone(),
            entries_peak: before.entries,
            depth_peak: before.dispatch.depth,
            age_ms_peak: before.dispatch.age_ms,
            before,
            missed: 0,
            gauges,
        }
    }

    pub(super) fn add(&mut self, timers: TimerReport) {
        self.entries_peak = self.entries_peak.max(timers.entries);
        self.depth_peak = self.depth_peak.max(timers.dispatch.depth);
        self.age_ms_peak = self.age_ms_peak.max(timers.dispatch.age_ms);
        self.gauges.update(Some(&timers));
        self.last = timers;
    }

    /// Records a sample for which no valid response arrived. Returns true the first time.
    pub(super) fn add_missed(&mut self) -> bool {
        self.missed += 1;
        self.gauges.update(None);
        self.missed == 1
    }

    pub(super) fn outcome(&self) -> TimersOutcome {
        let Self { before, last, .. } = self;
        TimersOutcome {
            entries_peak: self.entries_peak,
            expiries: last.lateness.count.saturating_sub(before.lateness.count),
            lateness_ms: LatenessOutcome {
                p50: last.lateness.p50_ms,
                p99: last.lateness.p99_ms,
                p999: last.lateness.p999_ms,
                max: last.lateness.max_ms,
            },
            dispatch: DispatchOutcome { depth_peak: self.depth_peak, age_ms_peak: self.age_ms_peak },
            stalls: last.stalls.count.saturating_sub(before.stalls.count),
            stolen_ms: (last.stalls.stolen_ms - before.stalls.stolen_ms).max(0.0),
            missed_samples: self.missed,
        }
    }
}

/// The `server.timers` part of the result.
#[derive(Serialize)]
pub(super) struct TimersOutcome {
    entries_peak: u64,
    expiries: u64,
    lateness_ms: LatenessOutcome,
    dispatch: DispatchOutcome,
    stalls: u64,
    stolen_ms: f64,
    missed_samples: u64,
}

#[derive(Serialize)]
struct LatenessOutcome {
    p50: f64,
    p99: f64,
    #[serde(rename = "p99.9")]
    p999: f64,
    max: f64,
}

#[derive(Serialize)]
struct DispatchOutcome {
    depth_peak: u64,
    age_ms_peak: f64,
}

impl Gauges {
    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    fn update(&self, timers: Option<&TimerReport>) {
        self.entries.set(timers.map(|timers| timers.entries as f64));
        for (level, gauge) in self.levels.iter().enumerate() {
            gauge.set(timers.and_then(|timers| timers.levels.get(level)).map(|entries| *entries as f64));
        }
        self.lateness_p99_ms.set(timers.map(|timers| timers.lateness.p99_ms));
        self.lateness_max_ms.set(timers.map(|timers| timers.lateness.max_ms));
        self.dispatch_depth.set(timers.map(|timers| timers.dispatch.depth as f64));
        self.dispatch_age_ms.set(timers.map(|timers| timers.dispatch.age_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(entries: u64, count: u64, depth: u64) -> TimerReport {
        let text = format!(
            r#"{{"scheme":"hierarchical","tick_ms":10.0,"entries":{entries},"levels":[{entries},2],
                "lateness":{{"count":{count},"p50_ms":0.1,"p99_ms":1.5,"p999_ms":2.0,"max_ms":3.0}},
                "dispatch":{{"depth":{depth},"capacity":64,"workers":2,"age_ms":0.5}},
                "stalls":{{"count":1,"stolen_ms":7.5}},"since_last_turn_ms":1.0,"new":{{}}}}"#
        );
        parse(text.as_bytes()).expect("the answer is valid")
    }

    #[test]
    fn peaks_are_kept_and_counts_are_those_of_the_run() {
        let recorder = Recorder::starting_now();
        let mut account = TimersAccount::new(answer(5, 100, 0), &recorder);
        account.add(answer(900, 150, 7));
        recorder.sample();
        for (name, value) in [("entries", 900.0), ("level0", 900.0), ("level1", 2.0), ("dispatch_depth", 7.0)]
        {
            assert_eq!(recorder.last().get(&format!("server.timers.{name}")), Some(value), "{name}");
        }
        account.add(answer(800, 190, 1));
        assert!(account.add_missed() && !account.add_missed());
        recorder.sample();
        assert_eq!(recorder.last().get("server.timers.entries"), None);
        let outcome = crate::result::Group::of(&account.outcome());
        for (path, value) in [
            ("entries_peak", 900.0),
            ("expiries", 90.0),
            ("lateness_ms.p99.9", 2.0),
            ("dispatch.depth_peak", 7.0),
            ("stalls", 0.0),
            ("missed_samples", 2.0),
        ] {
            assert_eq!(outcome.number(path), Ok(value), "{path}");
        }
    }

    #[test]
    fn other_answers_are_rejected() {
        for bad in ["", "{}", "[]", "<html>", r#"{"entries":-1}"#] {
            assert!(
                parse(bad.as_bytes()).expect_err("the answer is invalid").starts_with("/api/timers"),
                "{bad}"
            );
        }
    }
}
