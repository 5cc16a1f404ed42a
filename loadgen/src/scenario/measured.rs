//! The results of a run, before they become a document.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::ScenarioOutcome;
use crate::cost::{BottleneckOutcome, CostSummary};
use crate::process::UsageSummary;
use crate::record::TrafficSummary;
use crate::result::{Document, Group, RunInfo, Series, summed};

/// Why nothing was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MeasureError {
    /// The options make no sense with this server.
    Refused(String),
    Failed(String),
}

impl From<String> for MeasureError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl fmt::Display for MeasureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Refused(why) | Self::Failed(why)) = self;
        f.write_str(why)
    }
}

#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) run: RunInfo,
    pub(crate) numbers: Numbers,
    pub(crate) whole: WholeRunNumbers,
    pub(crate) series: Series,
}

summed! {
    /// Counts and times that each process measures itself.
    pub(crate) struct Numbers {
        pub(crate) outcome: ScenarioOutcome,
        pub(crate) error_kinds: BTreeMap<String, u64>,
        pub(crate) traffic: TrafficSummary,
        pub(crate) loadgen: LoadgenUsage,
    }
}

summed! {
    pub(crate) struct LoadgenUsage {
        #[serde(flatten)]
        usage: UsageSummary,
        /// Usage computed from samples. `None` if there is no /proc.
        #[serde(flatten)]
        cost: Option<CostSummary>,
    }
}

impl LoadgenUsage {
    /// Combines both sources. The higher of the two memory peaks is used for both: the kernel's peak may be
    /// lower than the sampled one, since the kernel counts pages in batches, or higher, since it is updated
    /// continuously.
    pub(crate) fn new(usage: UsageSummary, cost: Option<CostSummary>) -> Self {
        let peak = usage.peak_resident_bytes().max(cost.as_ref().map(CostSummary::peak_resident_bytes));
        let cost = cost.map(|cost| match peak {
            Some(bytes) => cost.with_peak_resident_bytes(bytes),
            None => cost,
        });
        Self { usage: usage.with_peak_resident_bytes(peak), cost }
    }
}

/// Numbers known only to the process that sees the whole run.
#[derive(Debug)]
pub(crate) struct WholeRunNumbers {
    pub(crate) server: Option<Group>,
    /// Number of processes, if there are several.
    pub(crate) processes: Option<u32>,
    pub(crate) bottleneck: BottleneckOutcome,
}

/// Part of the document after the outcome.
#[derive(Serialize)]
struct DocumentTail<'a> {
    error_kinds: &'a BTreeMap<String, u64>,
    traffic: &'a TrafficSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a Group>,
    loadgen: Loadgen<'a>,
}

#[derive(Serialize)]
struct Loadgen<'a> {
    #[serde(flatten)]
    usage: &'a LoadgenUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u32>,
    #[serde(flatten)]
    bottleneck: &'a BottleneckOutcome,
}

impl Measured {
    /// Builds the document. `settings` are the options of the run.
    pub(crate) fn into_document(self, settings: Group) -> Document {
        let Numbers { outcome, error_kinds, traffic, loadgen } = &self.numbers;
        let WholeRunNumbers { server, processes, bottleneck } = &self.whole;
        let loadgen = Loadgen { usage: loadgen, processes: *processes, bottleneck };
        let rest = DocumentTail { error_kinds, traffic, server: server.as_ref(), loadgen };
        let numbers = outcome.to_group().and(Group::of(&rest));
        Document::new(settings, self.run, numbers, &self.series)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_memory_peaks_are_the_higher_one() {
        for (of_kernel, sampled) in [(17, 18), (19, 18)] {
            let usage = json!({"cpu_seconds": 1.0, "peak_resident_bytes": of_kernel, "lag_ms_max": 1.0});
            let cost = json!({
                "cores": {"mean": null, "peak": null},
                "resident_bytes": {"before": 1, "steady": null, "peak": sampled, "after": 2},
                "bytes_per_connection": null, "cpu_ms_per_ping": null,
            });
            let usage = serde_json::from_value(usage).expect("the value is a usage summary");
            let cost = serde_json::from_value(cost).expect("the value is a cost summary");
            let both = Group::of(&LoadgenUsage::new(usage, Some(cost)));
            let peak = Ok(f64::from(of_kernel.max(sampled)));
            assert_eq!(
                (both.number("peak_resident_bytes"), both.number("resident_bytes.peak")),
                (peak.clone(), peak)
            );
        }
    }
}
