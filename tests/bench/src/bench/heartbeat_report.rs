//! Output of a heartbeat measurement: a table per run, a summary, and everything as JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::args::Plan;
use crate::comparison::{self, Figure, FigureSummary};
use crate::heartbeat::HeartbeatRow;
use crate::placement::CpuPlacement;

#[derive(Debug, Serialize)]
pub(crate) struct HeartbeatReport {
    setup: BenchSetup,
    pub(crate) rows: Vec<HeartbeatRow>,
    /// loadgen's reports, if requested.
    pub(crate) mute: Option<Value>,
    pub(crate) storm: Option<Value>,
}

/// Parameters and environment of a measurement.
#[derive(Debug, Serialize)]
pub(crate) struct BenchSetup {
    connections: u32,
    runs: u32,
    interval_seconds: f64,
    windows: u32,
    rate: u32,
    control_batch_ms: f64,
    /// Settings that differ from the defaults.
    set: Vec<String>,
    variant: Vec<String>,
    log_level: &'static str,
    processors: usize,
    server_cpu: usize,
    client_cpu: usize,
    kernel: String,
}

const FIGURES: [Figure<HeartbeatRow>; 4] = [
    Figure { name: "cpu_us_per_ping", decimals: 2, of: |row| Some(row.cpu_us_per_ping) },
    Figure { name: "connect_cpu_ms_per_1000", decimals: 1, of: |row| Some(row.connect_cpu_ms_per_1000) },
    Figure { name: "rss_bytes_per_connection", decimals: 0, of: |row| Some(row.rss_bytes_per_connection) },
    Figure { name: "idle_cpu_percent", decimals: 3, of: |row| Some(row.idle_cpu_percent) },
];

impl BenchSetup {
    pub(crate) fn of(plan: &Plan, placement: &CpuPlacement) -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            connections: plan.connections,
            runs: plan.runs,
            interval_seconds: plan.interval.as_secs_f64(),
            windows: plan.windows,
            rate: plan.rate,
            control_batch_ms: 1e3 * plan.control_batch.as_secs_f64(),
            set: plan.set.clone(),
            variant: plan.variant.clone(),
            log_level: "warn",
            processors: std::fs::read_dir("/sys/bus/cpu/devices").map_or(0, Iterator::count),
            server_cpu: placement.server,
            client_cpu: placement.client,
            kernel: kernel.trim().to_owned(),
        }
    }
}

impl HeartbeatReport {
    pub(crate) fn new(plan: &Plan, placement: &CpuPlacement) -> Self {
        Self { setup: BenchSetup::of(plan, placement), rows: Vec::new(), mute: None, storm: None }
    }

    pub(crate) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct WithSummary<'a> {
            #[serde(flatten)]
            report: &'a HeartbeatReport,
            summary: BTreeMap<&'static str, FigureSummary>,
        }
        let summary = comparison::summaries(&FIGURES, &self.rows);
        serde_json::to_string_pretty(&WithSummary { report: self, summary })
            .expect("string keys and plain values cannot fail to serialize")
    }

    /// Formats the results of all servers in one run.
    pub(crate) fn table_of_run(&self, run: u32) -> String {
        let further = ["pings", "closes", "lateness p99 ms", "threads"];
        comparison::table_of_run(&FIGURES, &self.rows, run, further, |row| {
            let p99 = row.lateness.as_ref().and_then(|lateness| lateness.get("p99_ms"));
            [
                row.pings.to_string(),
                row.unexpected_closes.to_string(),
                p99.map_or_else(|| "-".to_owned(), Value::to_string),
                row.threads.values().sum::<u32>().to_string(),
            ]
        })
    }

    /// Formats the medians over the runs, and loadgen's results.
    pub(crate) fn summary_table(&self) -> String {
        let table = comparison::summary_table(&FIGURES, &self.rows);
        let mut text = format!("{table}\n{}", comparison::threads(&self.rows, |row| &row.threads));
        for (name, found) in [("mute", &self.mute), ("storm", &self.storm)] {
            if let Some(found) = found {
                text.push_str(&format!("\n{name}  {}", highlights(found)));
            }
        }
        text
    }
}

/// Extracts the numbers in loadgen's report that show whether a guarantee holds.
fn highlights(found: &Value) -> String {
    const NAMES: [&str; 9] = [
        "connected",
        "errors",
        "unexpected_closes",
        "closed",
        "early",
        "still_open",
        "resumed",
        "all_back_seconds",
        "lateness_ms",
    ];
    let numbers = NAMES.iter().filter_map(|name| Some(format!("{name} {}", found.get(name)?)));
    numbers.collect::<Vec<_>>().join(", ")
}
