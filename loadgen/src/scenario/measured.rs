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
        pub(crate) usage: UsageSummary,
        /// Nothing where there is no /proc.
        #[serde(flatten)]
        pub(crate) cost: Option<CostSummary>,
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
