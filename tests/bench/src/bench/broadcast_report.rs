//! Output of a broadcast measurement: a table per run, a summary, and everything as JSON.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::args::Plan;
use crate::broadcast::BroadcastRow;
use crate::comparison::{self, Figure, FigureSummary};
use crate::heartbeat_report::BenchSetup;
use crate::placement::CpuPlacement;
use crate::process::ServerKind;

/// Maximum cost of a delivery by the server, as a multiple of the control's cost.
const GOAL: f64 = 1.25;

#[derive(Debug, Serialize)]
pub(crate) struct BroadcastReport {
    setup: BenchSetup,
    broadcast: BroadcastSetup,
    pub(crate) rows: Vec<BroadcastRow>,
}

/// Parameters specific to a broadcast.
#[derive(Debug, Serialize)]
struct BroadcastSetup {
    messages: u32,
    publish_rate: u32,
    data_bytes: usize,
    idle_seconds: f64,
    goal: f64,
}

const DELIVERY: Figure<BroadcastRow> =
    Figure { name: "cpu_us_per_delivery", decimals: 2, of: |row| Some(row.cpu_us_per_delivery) };

const FIGURES: [Figure<BroadcastRow>; 5] = [
    DELIVERY,
    Figure { name: "last_delivery_p50_ms", decimals: 1, of: |row| Some(row.last_delivery_ms.p50) },
    Figure { name: "last_delivery_p99_ms", decimals: 1, of: |row| Some(row.last_delivery_ms.p99) },
    Figure { name: "last_delivery_max_ms", decimals: 1, of: |row| Some(row.last_delivery_ms.max) },
    Figure { name: "idle_cpu_percent", decimals: 3, of: |row| Some(row.idle_cpu_percent) },
];

impl BroadcastReport {
    pub(crate) fn new(plan: &Plan, placement: &CpuPlacement) -> Self {
        let broadcast = BroadcastSetup {
            messages: plan.messages,
            publish_rate: plan.publish_rate,
            data_bytes: plan.data_bytes,
            idle_seconds: plan.idle.as_secs_f64(),
            goal: GOAL,
        };
        Self { setup: BenchSetup::of(plan, placement), broadcast, rows: Vec::new() }
    }

    pub(crate) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct WithSummary<'a> {
            #[serde(flatten)]
            report: &'a BroadcastReport,
            summary: BTreeMap<&'static str, FigureSummary>,
        }
        let summary = comparison::summaries(&FIGURES, &self.rows);
        serde_json::to_string_pretty(&WithSummary { report: self, summary })
            .expect("string keys and plain values cannot fail to serialize")
    }

    pub(crate) fn table_of_run(&self, run: u32) -> String {
        let further = ["expected", "received", "lost", "duplicated", "misordered", "other", "closes"];
        comparison::table_of_run(&FIGURES, &self.rows, run, further, |row| {
            let closes = row.unexpected_closes.into();
            [row.expected, row.received, row.lost, row.duplicated, row.misordered, row.other, closes]
                .map(|count: u64| count.to_string())
        })
    }

    /// Formats the medians over the runs, and whether the goal was reached.
    pub(crate) fn summary_table(&self) -> String {
        let table = comparison::summary_table(&FIGURES, &self.rows);
        let threads = comparison::threads(&self.rows, |row| &row.threads);
        let reached = DELIVERY
            .summary(&self.rows)
            .against(ServerKind::Control, ServerKind::Encke)
            .map_or_else(String::new, |ratio| {
                let verdict = if ratio.median <= GOAL { "reached" } else { "missed" };
                format!(": {verdict} with {}", ratio.show(2))
            });
        format!(
            "{table}\n{threads}\ngoal     a delivery costs at most {GOAL} times the control's CPU time{reached}"
        )
    }
}
