//! What is told: a table a run, a summary, and all of it as JSON.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use serde_json::Value;

use crate::args::Plan;
use crate::placement::Placement;
use crate::process::Kind;
use crate::scenario::Row;
use crate::statistics::Spread;

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    setup: Setup,
    pub(crate) rows: Vec<Row>,
    /// loadgen's reports, where they were asked for.
    pub(crate) mute: Option<Value>,
    pub(crate) storm: Option<Value>,
}

/// The circumstances.
#[derive(Debug, Serialize)]
struct Setup {
    connections: u32,
    runs: u32,
    interval_seconds: f64,
    windows: u32,
    rate: u32,
    control_batch_ms: f64,
    /// Beyond the defaults.
    set: Vec<String>,
    log_level: &'static str,
    processors: usize,
    server_cpu: usize,
    client_cpu: usize,
    kernel: String,
}

/// A figure of both servers, and the server's against the control's, pair by pair.
#[derive(Debug, Serialize)]
struct Summary {
    encke: Option<Spread>,
    control: Option<Spread>,
    ratio: Option<Spread>,
    difference: Option<Spread>,
}

struct Figure {
    name: &'static str,
    decimals: usize,
    of: fn(&Row) -> f64,
}

const FIGURES: [Figure; 4] = [
    Figure { name: "cpu_us_per_ping", decimals: 2, of: |row| row.cpu_us_per_ping },
    Figure { name: "connect_cpu_ms_per_1000", decimals: 1, of: |row| row.connect_cpu_ms_per_1000 },
    Figure { name: "rss_bytes_per_connection", decimals: 0, of: |row| row.rss_bytes_per_connection },
    Figure { name: "idle_cpu_percent", decimals: 3, of: |row| row.idle_cpu_percent },
];

impl Report {
    pub(crate) fn new(plan: &Plan, placement: &Placement) -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let setup = Setup {
            connections: plan.connections,
            runs: plan.runs,
            interval_seconds: plan.interval.as_secs_f64(),
            windows: plan.windows,
            rate: plan.rate,
            control_batch_ms: 1e3 * plan.control_batch.as_secs_f64(),
            set: plan.set.clone(),
            log_level: "warn",
            processors: std::fs::read_dir("/sys/bus/cpu/devices").map_or(0, Iterator::count),
            server_cpu: placement.server,
            client_cpu: placement.client,
            kernel: kernel.trim().to_owned(),
        };
        Self { setup, rows: Vec::new(), mute: None, storm: None }
    }

    pub(crate) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct WithSummary<'a> {
            #[serde(flatten)]
            report: &'a Report,
            summary: BTreeMap<&'static str, Summary>,
        }
        let summary = FIGURES.iter().map(|figure| (figure.name, self.summary(figure))).collect();
        serde_json::to_string_pretty(&WithSummary { report: self, summary })
            .expect("string keys and plain values cannot fail to serialize")
    }

    /// Both servers in one run.
    pub(crate) fn table_of_run(&self, run: u32) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        let mut header = vec!["run".to_owned(), "server".to_owned()];
        header.extend(FIGURES.iter().map(|figure| figure.name.to_owned()));
        header.extend(["pings", "closes", "lateness p99 ms", "threads"].map(str::to_owned));
        table.set_header(header);
        for row in self.rows.iter().filter(|row| row.run == run) {
            let mut cells = vec![run.to_string(), row.server.name().to_owned()];
            cells.extend(FIGURES.iter().map(|figure| format!("{:.*}", figure.decimals, (figure.of)(row))));
            let p99 = row.lateness.as_ref().and_then(|lateness| lateness.get("p99_ms"));
            cells.extend([
                row.pings.to_string(),
                row.unexpected_closes.to_string(),
                p99.map_or_else(|| "-".to_owned(), Value::to_string),
                row.threads.values().sum::<u32>().to_string(),
            ]);
            table.add_row(cells);
        }
        aligned(table)
    }

    /// Medians over the runs, and what loadgen found.
    pub(crate) fn summary_table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header(["median (min .. max)", "encke", "control", "encke/control", "encke - control"]);
        for figure in &FIGURES {
            let Summary { encke, control, ratio, difference } = self.summary(figure);
            let show = |spread: Option<Spread>, decimals| {
                spread.map_or_else(|| "-".to_owned(), |spread| spread.show(decimals))
            };
            table.add_row([
                figure.name.to_owned(),
                show(encke, figure.decimals),
                show(control, figure.decimals),
                show(ratio, 2),
                show(difference, figure.decimals),
            ]);
        }
        let threads = |kind| {
            let row = self.rows.iter().find(|row| row.server == kind);
            row.map_or_else(String::new, |row| list(&row.threads))
        };
        let mut text = format!(
            "{}\nthreads  encke: {}\n         control: {}",
            aligned(table),
            threads(Kind::Encke),
            threads(Kind::Control)
        );
        for (name, found) in [("mute", &self.mute), ("storm", &self.storm)] {
            if let Some(found) = found {
                text.push_str(&format!("\n{name}  {}", highlights(found)));
            }
        }
        text
    }

    fn summary(&self, figure: &Figure) -> Summary {
        let all = |kind| self.rows.iter().filter(move |row| row.server == kind);
        let of = |kind| Spread::of(all(kind).map(figure.of));
        let pairs = || {
            all(Kind::Encke).filter_map(|encke| {
                let control = all(Kind::Control).find(|control| control.run == encke.run)?;
                Some(((figure.of)(encke), (figure.of)(control)))
            })
        };
        Summary {
            encke: of(Kind::Encke),
            control: of(Kind::Control),
            ratio: Spread::of(pairs().map(|(encke, control)| encke / control)),
            difference: Spread::of(pairs().map(|(encke, control)| encke - control)),
        }
    }
}

/// All columns but the first hold numbers.
fn aligned(mut table: Table) -> String {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

fn list(threads: &BTreeMap<String, u32>) -> String {
    let total: u32 = threads.values().sum();
    let names: Vec<_> = threads.iter().map(|(name, count)| format!("{count} {name}")).collect();
    format!("{total} ({})", names.join(", "))
}

/// The numbers of loadgen's report that a promise hangs on.
fn highlights(found: &Value) -> String {
    const NAMES: [&str; 9] = [
        "connected",
        "errors",
        "unexpected_closes",
        "closed",
        "early",
        "still_open",
        "resumed",
        "seconds",
        "lateness_ms",
    ];
    let told = NAMES.iter().filter_map(|name| Some(format!("{name} {}", found.get(name)?)));
    told.collect::<Vec<_>>().join(", ")
}
