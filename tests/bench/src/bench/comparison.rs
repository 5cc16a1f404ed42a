//! Comparison of the results of all servers with a baseline, pair by pair within each run. The baseline is
//! the simplest server that was measured.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::process::ServerKind;
use crate::statistics::Spread;

/// Results of one server in one run.
pub(crate) trait Measurement {
    fn run(&self) -> u32;
    fn server(&self) -> ServerKind;
}

pub(crate) struct Figure<R> {
    pub(crate) name: &'static str,
    pub(crate) decimals: usize,
    /// Returns the figure, or `None` if it was not measured.
    pub(crate) of: fn(&R) -> Option<f64>,
}

/// Summary of a figure over all runs.
#[derive(Debug, Serialize)]
pub(crate) struct FigureSummary {
    #[serde(flatten)]
    pub(crate) servers: BTreeMap<ServerKind, Spread>,
    /// Server with which the others are compared.
    base: Option<ServerKind>,
    ratios: BTreeMap<ServerKind, Spread>,
    differences: BTreeMap<ServerKind, Spread>,
}

impl<R: Measurement> Figure<R> {
    pub(crate) fn summary(&self, rows: &[R]) -> FigureSummary {
        let of = |kind| Some((kind, Spread::of(self.of_server(rows, kind).map(|(_, figure)| figure))?));
        FigureSummary {
            servers: kinds(rows).into_iter().filter_map(of).collect(),
            base: base(rows),
            ratios: self.pair_by_pair(rows, |figure, base| figure / base),
            differences: self.pair_by_pair(rows, |figure, base| figure - base),
        }
    }

    /// Returns the figure of one server in each run, with the number of the run.
    fn of_server(&self, rows: &[R], kind: ServerKind) -> impl Iterator<Item = (u32, f64)> {
        rows.iter()
            .filter(move |row| row.server() == kind)
            .filter_map(|row| Some((row.run(), (self.of)(row)?)))
    }

    fn pair_by_pair(&self, rows: &[R], combine: fn(f64, f64) -> f64) -> BTreeMap<ServerKind, Spread> {
        let of = |(kind, base)| {
            let pairs = self.of_server(rows, kind).filter_map(|(run, figure)| {
                let (_, of_base) = self.of_server(rows, base).find(|(other, _)| *other == run)?;
                // Skip the ratio of zero to zero.
                Some(combine(figure, of_base)).filter(|combined| combined.is_finite())
            });
            Some((kind, Spread::of(pairs)?))
        };
        compared(rows).into_iter().filter_map(of).collect()
    }
}

impl FigureSummary {
    /// Returns the ratio of one server to `base`, if `base` is the baseline.
    pub(crate) fn against(&self, base: ServerKind, kind: ServerKind) -> Option<Spread> {
        self.ratios.get(&kind).copied().filter(|_| self.base == Some(base))
    }
}

/// Returns the servers that have results.
fn kinds<R: Measurement>(rows: &[R]) -> BTreeSet<ServerKind> {
    rows.iter().map(Measurement::server).collect()
}

/// Returns the baseline: the simplest server, if there is more than one.
fn base<R: Measurement>(rows: &[R]) -> Option<ServerKind> {
    let kinds = kinds(rows);
    kinds.last().copied().filter(|_| kinds.len() > 1)
}

/// Returns a pair of each other server and the baseline.
fn compared<R: Measurement>(rows: &[R]) -> Vec<(ServerKind, ServerKind)> {
    let Some(base) = base(rows) else { return Vec::new() };
    kinds(rows).into_iter().filter(|kind| *kind != base).map(|kind| (kind, base)).collect()
}

/// Returns the summaries by figure name.
pub(crate) fn summaries<R: Measurement>(
    figures: &[Figure<R>],
    rows: &[R],
) -> BTreeMap<&'static str, FigureSummary> {
    figures.iter().map(|figure| (figure.name, figure.summary(rows))).collect()
}

/// Formats the results of one run, with additional columns.
pub(crate) fn table_of_run<R: Measurement, const N: usize>(
    figures: &[Figure<R>],
    rows: &[R],
    run: u32,
    further: [&str; N],
    cells_of: impl Fn(&R) -> [String; N],
) -> String {
    let mut table = new_table();
    let mut header = vec!["run".to_owned(), "server".to_owned()];
    header.extend(figures.iter().map(|figure| figure.name.to_owned()));
    header.extend(further.map(str::to_owned));
    table.set_header(header);
    for row in rows.iter().filter(|row| row.run() == run) {
        let mut cells = vec![run.to_string(), row.server().name().to_owned()];
        cells.extend(figures.iter().map(|figure| {
            (figure.of)(row).map_or_else(|| "-".to_owned(), |of| format!("{of:.*}", figure.decimals))
        }));
        cells.extend(cells_of(row));
        table.add_row(cells);
    }
    aligned(table)
}

/// Formats the medians over the runs of the figures that were measured.
pub(crate) fn summary_table<R: Measurement>(figures: &[Figure<R>], rows: &[R]) -> String {
    let (kinds, compared) = (kinds(rows), compared(rows));
    // Show differences for two servers only: with more, the table would be too wide.
    let with_differences = if kinds.len() == 2 { compared.as_slice() } else { &[] };
    let mut table = new_table();
    let mut header = vec!["median (min .. max)".to_owned()];
    header.extend(kinds.iter().map(|kind| kind.name().to_owned()));
    header.extend(compared.iter().map(|(kind, base)| format!("{}/{}", kind.name(), base.name())));
    header.extend(with_differences.iter().map(|(kind, base)| format!("{} - {}", kind.name(), base.name())));
    table.set_header(header);
    for figure in figures {
        let summary = figure.summary(rows);
        if summary.servers.is_empty() {
            continue;
        }
        let show = |spread: Option<&Spread>, decimals| {
            spread.map_or_else(|| "-".to_owned(), |spread| spread.show(decimals))
        };
        let mut cells = vec![figure.name.to_owned()];
        cells.extend(kinds.iter().map(|kind| show(summary.servers.get(kind), figure.decimals)));
        cells.extend(compared.iter().map(|(kind, _)| show(summary.ratios.get(kind), 2)));
        cells.extend(
            with_differences.iter().map(|(kind, _)| show(summary.differences.get(kind), figure.decimals)),
        );
        table.add_row(cells);
    }
    aligned(table)
}

/// Formats the number of threads of each server, by thread name.
pub(crate) fn threads<R: Measurement>(rows: &[R], of: impl Fn(&R) -> &BTreeMap<String, u32>) -> String {
    let lines = kinds(rows).into_iter().filter_map(|kind| {
        let row = rows.iter().find(|row| row.server() == kind)?;
        Some(format!("{}: {}", kind.name(), list(of(row))))
    });
    format!("threads  {}", lines.collect::<Vec<_>>().join("\n         "))
}

fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table
}

/// Right-aligns all columns but the first.
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Row(u32, ServerKind, Option<f64>);

    impl Measurement for Row {
        fn run(&self) -> u32 {
            self.0
        }

        fn server(&self) -> ServerKind {
            self.1
        }
    }

    const FIGURE: Figure<Row> = Figure { name: "figure", decimals: 0, of: |row| row.2 };

    #[test]
    fn servers_are_compared_with_the_baseline_in_each_run() {
        let rows = [
            Row(1, ServerKind::Encke, Some(6.0)),
            Row(1, ServerKind::Epoll, Some(2.0)),
            Row(1, ServerKind::Control, None),
            Row(2, ServerKind::Epoll, Some(10.0)),
            Row(2, ServerKind::Encke, Some(20.0)),
        ];
        let summary = FIGURE.summary(&rows);
        assert_eq!(summary.against(ServerKind::Epoll, ServerKind::Encke), Spread::of([3.0, 2.0]));
        assert_eq!(summary.against(ServerKind::Control, ServerKind::Encke), None);
        assert_eq!(summary.differences.get(&ServerKind::Encke).copied(), Spread::of([4.0, 10.0]));
        assert_eq!(summary.servers.get(&ServerKind::Control), None);
    }

    #[test]
    fn a_single_server_has_no_comparison() {
        let summary = FIGURE.summary(&[Row(1, ServerKind::Encke, Some(6.0))]);
        assert_eq!((summary.base, summary.ratios.len()), (None, 0));
    }
}
