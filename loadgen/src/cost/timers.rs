//! Encke's timer statistics, from `GET /api/timers` of its admin API.

use serde::Deserialize;

use crate::result::{Group, Sample};

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

#[derive(Debug)]
pub(super) struct TimersCost {
    before: TimerReport,
    last: TimerReport,
    entries_peak: u64,
    depth_peak: u64,
    age_ms_peak: f64,
    missed: u64,
}

pub(super) fn parse(body: &[u8]) -> Result<TimerReport, String> {
    serde_json::from_slice(body).map_err(|error| format!("{PATH} returned an unexpected answer: {error}"))
}

impl TimersCost {
    pub(super) fn new(before: TimerReport) -> Self {
        let Dispatch { depth, age_ms } = before.dispatch;
        let (entries_peak, last) = (before.entries, before.clone());
        Self { before, last, entries_peak, depth_peak: depth, age_ms_peak: age_ms, missed: 0 }
    }

    #[expect(clippy::cast_precision_loss, reason = "no count comes near 2^53")]
    pub(super) fn add(&mut self, timers: TimerReport, sample: &mut Sample) {
        let mut gauge = |name: &str, value| sample.gauge(&format!("server.timers.{name}"), Some(value));
        gauge("entries", timers.entries as f64);
        for (level, entries) in timers.levels.iter().take(MAX_LEVELS).enumerate() {
            gauge(&format!("level{level}"), *entries as f64);
        }
        gauge("lateness_p99_ms", timers.lateness.p99_ms);
        gauge("lateness_max_ms", timers.lateness.max_ms);
        gauge("dispatch_depth", timers.dispatch.depth as f64);
        gauge("dispatch_age_ms", timers.dispatch.age_ms);
        self.entries_peak = self.entries_peak.max(timers.entries);
        self.depth_peak = self.depth_peak.max(timers.dispatch.depth);
        self.age_ms_peak = self.age_ms_peak.max(timers.dispatch.age_ms);
        self.last = timers;
    }

    /// Records a sample for which no valid response arrived. Returns true the first time.
    pub(super) fn add_missed(&mut self) -> bool {
        self.missed += 1;
        self.missed == 1
    }

    pub(super) fn outcome(&self) -> Group {
        let Self { before, last, .. } = self;
        let lateness = Group::default()
            .with("p50", last.lateness.p50_ms)
            .with("p99", last.lateness.p99_ms)
            .with("p99.9", last.lateness.p999_ms)
            .with("max", last.lateness.max_ms);
        let dispatch =
            Group::default().with("depth_peak", self.depth_peak).with("age_ms_peak", self.age_ms_peak);
        Group::default()
            .with("entries_peak", self.entries_peak)
            .with("expiries", last.lateness.count.saturating_sub(before.lateness.count))
            .with("lateness_ms", lateness)
            .with("dispatch", dispatch)
            .with("stalls", last.stalls.count.saturating_sub(before.stalls.count))
            .with("stolen_ms", (last.stalls.stolen_ms - before.stalls.stolen_ms).max(0.0))
            .with("missed_samples", self.missed)
    }
}
