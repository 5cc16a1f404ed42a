//! Output for parked connections: a table per run, a summary with the goals, and everything as JSON.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::args::Plan;
use crate::comparison::{self, Figure, FigureSummary};
use crate::heartbeat::to_real;
use crate::heartbeat_report::BenchSetup;
use crate::parking::{ParkingPart, ParkingRow};
use crate::placement::CpuPlacement;
use crate::process::ServerKind;

#[derive(Debug, Serialize)]
pub(crate) struct ParkingReport {
    setup: BenchSetup,
    /// Number of clients in the parts `delivery`, `fanout` and `commands`.
    crowd: u32,
    messages: u32,
    fanout: u32,
    parts: Vec<ParkingPart>,
    pub(crate) rows: Vec<ParkingRow>,
}

const FIGURES: [Figure<ParkingRow>; 14] = [
    Figure { name: "bytes_idle", decimals: 0, of: |row| Some(row.idle.as_ref()?.rss_bytes_per_connection) },
    Figure { name: "bytes_with_1_subscription", decimals: 0, of: |row| row.bytes_with_1_subscription },
    Figure { name: "bytes_with_4_subscriptions", decimals: 0, of: |row| row.bytes_with_4_subscriptions },
    Figure { name: "bytes_before_fanout", decimals: 0, of: |row| Some(row.fanout.as_ref()?.bytes_before) },
    Figure { name: "bytes_after_fanout", decimals: 0, of: |row| Some(row.fanout.as_ref()?.bytes_after) },
    Figure { name: "after_over_before", decimals: 2, of: after_over_before },
    Figure { name: "cpu_us_per_ping", decimals: 2, of: |row| Some(row.idle.as_ref()?.cpu_us_per_ping) },
    Figure {
        name: "cpu_us_per_delivery",
        decimals: 2,
        of: |row| Some(row.delivery.as_ref()?.cpu_us_per_delivery),
    },
    Figure {
        name: "connect_cpu_ms_per_1000",
        decimals: 1,
        of: |row| Some(row.idle.as_ref()?.connect_cpu_ms_per_1000),
    },
    Figure {
        name: "cpu_us_per_command",
        decimals: 2,
        of: |row| Some(row.speaking.as_ref()?.cpu_us_per_command),
    },
    Figure {
        name: "storm_seconds",
        decimals: 2,
        of: |row| row.storm.as_ref()?.get("all_back_seconds")?.as_f64(),
    },
    Figure {
        name: "last_delivery_p99_ms",
        decimals: 1,
        of: |row| Some(row.delivery.as_ref()?.last_delivery_ms.p99),
    },
    Figure {
        name: "lateness_p99_ms",
        decimals: 2,
        of: |row| row.idle.as_ref()?.lateness.as_ref()?.get("p99_ms").and_then(Value::as_f64),
    },
    Figure { name: "errors", decimals: 0, of: |row| Some(to_real(row.count_errors())) },
];

/// Maximum of a figure, absolute or as a multiple of the bare control's figure.
enum FigureGoal {
    AtMost(f64),
    TimesBare(f64),
}

const GOALS: [(&str, FigureGoal); 8] = [
    ("bytes_idle", FigureGoal::AtMost(450.0)),
    ("bytes_with_1_subscription", FigureGoal::AtMost(470.0)),
    ("bytes_with_4_subscriptions", FigureGoal::AtMost(580.0)),
    ("after_over_before", FigureGoal::AtMost(1.1)),
    ("cpu_us_per_ping", FigureGoal::TimesBare(1.25)),
    ("cpu_us_per_delivery", FigureGoal::TimesBare(1.15)),
    ("connect_cpu_ms_per_1000", FigureGoal::AtMost(30.0)),
    ("storm_seconds", FigureGoal::AtMost(0.55)),
];

fn after_over_before(row: &ParkingRow) -> Option<f64> {
    let fanout = row.fanout.as_ref()?;
    Some(fanout.bytes_after / fanout.bytes_before)
}

impl ParkingReport {
    pub(crate) fn new(plan: &Plan, placement: &CpuPlacement) -> Self {
        Self {
            setup: BenchSetup::of(plan, placement),
            crowd: plan.with_broadcast_clients().connections,
            messages: plan.messages,
            fanout: plan.fanout,
            parts: plan.parts.clone(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct WithSummary<'a> {
            #[serde(flatten)]
            report: &'a ParkingReport,
            summary: BTreeMap<&'static str, FigureSummary>,
        }
        let summary = comparison::summaries(&FIGURES, &self.rows);
        serde_json::to_string_pretty(&WithSummary { report: self, summary })
            .expect("string keys and plain values cannot fail to serialize")
    }

    /// Formats the results of all servers in the latest run.
    pub(crate) fn table_of_last_run(&self) -> String {
        let last = self.rows.last().map(|row| row.run);
        let begin = self.rows.partition_point(|row| Some(row.run) < last);
        comparison::summary_table(&FIGURES, &self.rows[begin..])
    }

    /// Formats the medians over the runs, and the goals.
    pub(crate) fn summary_table(&self) -> String {
        let table = comparison::summary_table(&FIGURES, &self.rows);
        let goals: String = GOALS.iter().filter_map(|(name, goal)| self.verdict(name, goal)).collect();
        format!("{table}{goals}")
    }

    /// Formats whether a goal was reached. Returns `None` if the figure was not measured.
    fn verdict(&self, name: &str, goal: &FigureGoal) -> Option<String> {
        let figure = FIGURES.iter().find(|figure| figure.name == name)?;
        let summary = figure.summary(&self.rows);
        let (what, goal, found, decimals) = match goal {
            FigureGoal::AtMost(goal) => {
                ("at most", *goal, *summary.servers.get(&ServerKind::Encke)?, figure.decimals)
            }
            FigureGoal::TimesBare(goal) => (
                "(times the bare control) at most",
                *goal,
                summary.against(ServerKind::Epoll, ServerKind::Encke)?,
                2,
            ),
        };
        let verdict = if found.median <= goal { "reached" } else { "missed" };
        Some(format!("\ngoal     {name} {what} {goal}: {verdict} with {}", found.show(decimals)))
    }
}
