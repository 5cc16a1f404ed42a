//! Results: the figures of each server and run, their comparison, and the goals.

use std::collections::BTreeMap;

use clap::ValueEnum;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::server::ServerKind;
use crate::spread::Spread;
use crate::to_real;

/// Figures of one server in one run, of the parts that were measured.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) run: u32,
    pub(crate) server: ServerKind,
    pub(crate) figures: BTreeMap<&'static str, f64>,
    /// Number of threads by name, while clients are connected.
    pub(crate) threads: BTreeMap<String, u32>,
}

impl Row {
    pub(crate) fn new(run: u32, server: ServerKind) -> Self {
        Self { run, server, figures: BTreeMap::new(), threads: BTreeMap::new() }
    }

    pub(crate) fn set(&mut self, figure: &'static str, number: f64) {
        self.figures.insert(figure, number);
    }

    pub(crate) fn add_errors(&mut self, errors: u64) {
        *self.figures.entry("errors").or_default() += to_real(errors);
    }
}

/// Maximum of a figure.
#[derive(Clone, Copy)]
enum Goal {
    AtMost(f64),
    /// As a multiple of the figure of the same run of another server.
    Times(f64, ServerKind),
}

use Goal::{AtMost, Times};
use ServerKind::{Control, Encke, Epoll};

/// All figures, with the number of decimals to show and the goals.
const FIGURES: [(&str, usize, &[Goal]); 13] = [
    ("bytes_idle", 0, &[AtMost(450.0)]),
    ("bytes_with_1_subscription", 0, &[AtMost(470.0)]),
    ("bytes_with_4_subscriptions", 0, &[AtMost(580.0)]),
    ("after_over_before", 2, &[AtMost(1.1)]),
    ("cpu_us_per_ping", 2, &[Times(1.25, Epoll)]),
    ("cpu_us_per_delivery", 2, &[Times(1.15, Epoll), Times(1.25, Control)]),
    ("cpu_us_per_command", 2, &[]),
    ("connect_cpu_ms_per_1000", 1, &[AtMost(30.0)]),
    ("idle_cpu_percent", 3, &[]),
    ("last_delivery_p50_ms", 1, &[]),
    ("last_delivery_p99_ms", 1, &[]),
    ("last_delivery_max_ms", 1, &[]),
    ("errors", 0, &[AtMost(0.0)]),
];

/// Formats the medians over the runs of the figures that were measured, and their ratios to the baseline: the
/// simplest server.
pub(crate) fn table(rows: &[Row]) -> String {
    let servers = servers(rows);
    let Some((base, others)) = servers.split_last() else { return String::new() };
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    let mut header = vec!["median (min .. max)".to_owned()];
    header.extend(servers.iter().map(|server| server.name()));
    header.extend(others.iter().map(|server| format!("{}/{}", server.name(), base.name())));
    table.set_header(header);
    let is_measured = |figure| rows.iter().any(|row| row.figures.contains_key(figure));
    for (figure, decimals, _) in FIGURES.into_iter().filter(|(figure, ..)| is_measured(*figure)) {
        let show = |spread: Option<Spread>, decimals| spread.map_or("-".to_owned(), |it| it.show(decimals));
        let mut cells = vec![figure.to_owned()];
        cells.extend(servers.iter().map(|server| show(spread(rows, figure, *server), decimals)));
        cells.extend(others.iter().map(|server| show(ratio(rows, figure, *server, *base), 2)));
        table.add_row(cells);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// Formats the threads of each server and whether each goal was reached, a line each.
pub(crate) fn threads_and_goals(rows: &[Row]) -> String {
    let threads = servers(rows).into_iter().filter_map(|server| {
        let row = rows.iter().find(|row| row.server == server && !row.threads.is_empty())?;
        let names: Vec<_> = row.threads.iter().map(|(name, count)| format!("{count} {name}")).collect();
        Some(format!(
            "threads  {}: {} ({})\n",
            server.name(),
            row.threads.values().sum::<u32>(),
            names.join(", ")
        ))
    });
    let goals = FIGURES.into_iter().flat_map(|(figure, decimals, goals)| {
        goals.iter().filter_map(move |goal| verdict(rows, figure, decimals, *goal))
    });
    threads.chain(goals).collect()
}

/// Returns `None` if the figure was not measured.
fn verdict(rows: &[Row], figure: &str, decimals: usize, goal: Goal) -> Option<String> {
    let (found, bound, what, decimals) = match goal {
        AtMost(bound) => (spread(rows, figure, Encke)?, bound, String::new(), decimals),
        Times(bound, base) => {
            (ratio(rows, figure, Encke, base)?, bound, format!(", as a multiple of {},", base.name()), 2)
        }
    };
    let verdict = if found.median <= bound { "reached" } else { "missed" };
    Some(format!("goal     {figure}{what} at most {bound}: {verdict} with {}\n", found.show(decimals)))
}

/// Returns the servers that have results.
fn servers(rows: &[Row]) -> Vec<ServerKind> {
    let all = ServerKind::value_variants().iter().copied();
    all.filter(|server| rows.iter().any(|row| row.server == *server)).collect()
}

fn spread(rows: &[Row], figure: &str, server: ServerKind) -> Option<Spread> {
    let own = rows.iter().filter(|row| row.server == server);
    Spread::of(own.filter_map(|row| row.figures.get(figure).copied()))
}

/// Returns the ratio of a server's figure to that of another server in the same run.
fn ratio(rows: &[Row], figure: &str, server: ServerKind, base: ServerKind) -> Option<Spread> {
    let of_run = |row: &Row| {
        let of_base = rows.iter().find(|other| other.server == base && other.run == row.run)?;
        // Skip the ratio of zero to zero.
        Some(row.figures.get(figure)? / of_base.figures.get(figure)?).filter(|ratio| ratio.is_finite())
    };
    Spread::of(rows.iter().filter(|row| row.server == server).filter_map(of_run))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(run: u32, server: ServerKind, number: Option<f64>) -> Row {
        let figures = number.map(|number| ("cpu_us_per_ping", number)).into_iter().collect();
        Row { figures, ..Row::new(run, server) }
    }

    #[test]
    fn servers_are_compared_with_the_baseline_in_each_run() {
        let rows = [
            row(1, Encke, Some(6.0)),
            row(1, Epoll, Some(2.0)),
            row(1, Control, None),
            row(2, Epoll, Some(10.0)),
            row(2, Encke, Some(20.0)),
        ];
        assert_eq!(ratio(&rows, "cpu_us_per_ping", Encke, Epoll), Spread::of([3.0, 2.0]));
        assert_eq!(ratio(&rows, "cpu_us_per_ping", Encke, Control), None);
        let verdicts = threads_and_goals(&rows);
        let expected = "goal     cpu_us_per_ping, as a multiple of epoll, at most 1.25: missed with 2.50 (2.00 .. 3.00)\n";
        assert_eq!(verdicts, expected);
    }
}
