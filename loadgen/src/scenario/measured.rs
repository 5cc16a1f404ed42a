//! The numbers of a run, before they become a document.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::Outcome;
use crate::cost::{BottleneckOutcome, CostSummary};
use crate::process::UsageSummary;
use crate::record::TrafficSummary;
use crate::result::{Document, Group, Run, Series, summed};

/// Why nothing was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotMeasured {
    /// What was asked for makes no sense with this server.
    Refused(String),
    Failed(String),
}

impl From<String> for NotMeasured {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl fmt::Display for NotMeasured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(why) | Self::Failed(why)) = self;
        f.write_str(why)
    }
}

#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) run: Run,
    pub(crate) numbers: Numbers,
    pub(crate) whole: Whole,
    pub(crate) series: Series,
}

summed! {
    /// What a process counts and timed itself.
    pub(crate) struct Numbers {
        pub(crate) outcome: Outcome,
        pub(crate) error_kinds: BTreeMap<String, u64>,
        pub(crate) traffic: TrafficSummary,
        pub(crate) loadgen: SelfUsage,
    }
}

summed! {
    pub(crate) struct SelfUsage {
        #[serde(flatten)]
        usage: UsageSummary,
        /// Nothing where there is no /proc.
        #[serde(flatten)]
        cost: Option<CostSummary>,
    }
}

impl SelfUsage {
    /// The kernel's own peak may be below what was sampled, since it counts pages in batches, and above, since it looks always:
    /// the higher one is told of both.
    pub(crate) fn new(usage: UsageSummary, cost: Option<CostSummary>) -> Self {
        let peak = usage.peak_resident_bytes().max(cost.as_ref().map(CostSummary::peak_resident_bytes));
        let cost = cost.map(|cost| match peak {
            Some(bytes) => cost.with_peak_resident_bytes(bytes),
            None => cost,
        });
        Self { usage: usage.with_peak_resident_bytes(peak), cost }
    }
}

/// What only the process that sees the whole run knows.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) server: Option<Group>,
    /// If there are several.
    pub(crate) processes: Option<u32>,
    pub(crate) bottleneck: BottleneckOutcome,
}

/// The rest of the document after the outcome.
#[derive(Serialize)]
struct Rest<'a> {
    error_kinds: &'a BTreeMap<String, u64>,
    traffic: &'a TrafficSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a Group>,
    loadgen: Loadgen<'a>,
}

#[derive(Serialize)]
struct Loadgen<'a> {
    #[serde(flatten)]
    usage: &'a SelfUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u32>,
    #[serde(flatten)]
    bottleneck: &'a BottleneckOutcome,
}

impl Measured {
    /// `settings` is what was asked for.
    pub(crate) fn into_document(self, settings: Group) -> Document {
        let Numbers { outcome, error_kinds, traffic, loadgen } = &self.numbers;
        let Whole { server, processes, bottleneck } = &self.whole;
        let loadgen = Loadgen { usage: loadgen, processes: *processes, bottleneck };
        let rest = Rest { error_kinds, traffic, server: server.as_ref(), loadgen };
        let numbers = outcome.to_group().and(Group::of(&rest));
        Document::new(settings, self.run, numbers, &self.series)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn there_is_one_peak_of_loadgens_memory() {
        for (of_kernel, sampled) in [(17, 18), (19, 18)] {
            let usage = json!({"cpu_seconds": 1.0, "peak_resident_bytes": of_kernel, "lag_ms_max": 1.0});
            let cost = json!({
                "cores": {"mean": null, "peak": null},
                "resident_bytes": {"before": 1, "steady": null, "peak": sampled, "after": 2},
                "bytes_per_connection": null, "cpu_ms_per_ping": null,
            });
            let usage = serde_json::from_value(usage).expect("it is one");
            let cost = serde_json::from_value(cost).expect("it is one");
            let both = Group::of(&SelfUsage::new(usage, Some(cost)));
            let peak = Ok(f64::from(of_kernel.max(sampled)));
            assert_eq!(
                (both.number("peak_resident_bytes"), both.number("resident_bytes.peak")),
                (peak.clone(), peak)
            );
        }
    }
}
