//! Figures of all servers, and each against the barest of them, pair by pair, run by run.

use std::collections::{BTreeMap, BTreeSet};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use crate::process::Kind;
use crate::statistics::Spread;

/// What was measured of one server in one run.
pub(crate) trait Measured {
    fn run(&self) -> u32;
    fn server(&self) -> Kind;
}

pub(crate) struct Figure<R> {
    pub(crate) name: &'static str,
    pub(crate) decimals: usize,
    /// `None` where it was not measured.
    pub(crate) of: fn(&R) -> Option<f64>,
}

/// A figure over all runs.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    #[serde(flatten)]
    pub(crate) servers: BTreeMap<Kind, Spread>,
    /// With which the others are compared.
    base: Option<Kind>,
    ratios: BTreeMap<Kind, Spread>,
    differences: BTreeMap<Kind, Spread>,
}

impl<R: Measured> Figure<R> {
    pub(crate) fn summary(&self, rows: &[R]) -> Summary {
        let of = |kind| Some((kind, Spread::of(self.of_server(rows, kind).map(|(_, figure)| figure))?));
        Summary {
            servers: kinds(rows).into_iter().filter_map(of).collect(),
            base: base(rows),
            ratios: self.pair_by_pair(rows, |figure, base| figure / base),
            differences: self.pair_by_pair(rows, |figure, base| figure - base),
        }
    }

    /// What was measured of one server, with the number of the run.
    fn of_server(&self, rows: &[R], kind: Kind) -> impl Iterator<Item = (u32, f64)> {
        rows.iter()
            .filter(move |row| row.server() == kind)
            .filter_map(|row| Some((row.run(), (self.of)(row)?)))
    }

    fn pair_by_pair(&self, rows: &[R], combine: fn(f64, f64) -> f64) -> BTreeMap<Kind, Spread> {
        let of = |(kind, base)| {
            let pairs = self.of_server(rows, kind).filter_map(|(run, figure)| {
                let (_, of_base) = self.of_server(rows, base).find(|(other, _)| *other == run)?;
                // Nothing against nothing is no ratio.
                Some(combine(figure, of_base)).filter(|combined| combined.is_finite())
            });
            Some((kind, Spread::of(pairs)?))
        };
        compared(rows).into_iter().filter_map(of).collect()
    }
}

impl Summary {
    /// The ratio of one server to another, if it was the one that all are compared with.
    pub(crate) fn against(&self, base: Kind, kind: Kind) -> Option<Spread> {
        self.ratios.get(&kind).copied().filter(|_| self.base == Some(base))
    }
}

/// The servers that there are figures of.
fn kinds<R: Measured>(rows: &[R]) -> BTreeSet<Kind> {
    rows.iter().map(Measured::server).collect()
}

/// The barest one, if there are others.
fn base<R: Measured>(rows: &[R]) -> Option<Kind> {
    let kinds = kinds(rows);
    kinds.last().copied().filter(|_| kinds.len() > 1)
}

/// Each server but the barest, and that.
fn compared<R: Measured>(rows: &[R]) -> Vec<(Kind, Kind)> {
    let Some(base) = base(rows) else { return Vec::new() };
    kinds(rows).into_iter().filter(|kind| *kind != base).map(|kind| (kind, base)).collect()
}

/// The summaries by the names of their figures.
pub(crate) fn summaries<R: Measured>(figures: &[Figure<R>], rows: &[R]) -> BTreeMap<&'static str, Summary> {
    figures.iter().map(|figure| (figure.name, figure.summary(rows))).collect()
}

/// The rows of one run: their figures, and further columns.
pub(crate) fn table_of_run<R: Measured, const N: usize>(
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

/// Medians over the runs, of what was measured.
pub(crate) fn summary_table<R: Measured>(figures: &[Figure<R>], rows: &[R]) -> String {
    let (kinds, compared) = (kinds(rows), compared(rows));
    // With more servers the table would be too wide.
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

/// How many threads of which names each server has.
pub(crate) fn threads<R: Measured>(rows: &[R], of: impl Fn(&R) -> &BTreeMap<String, u32>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Row(u32, Kind, Option<f64>);

    impl Measured for Row {
        fn run(&self) -> u32 {
            self.0
        }

        fn server(&self) -> Kind {
            self.1
        }
    }

    const FIGURE: Figure<Row> = Figure { name: "figure", decimals: 0, of: |row| row.2 };

    #[test]
    fn servers_are_compared_with_the_barest_run_by_run() {
        let rows = [
            Row(1, Kind::Encke, Some(6.0)),
            Row(1, Kind::Epoll, Some(2.0)),
            Row(1, Kind::Control, None),
            Row(2, Kind::Epoll, Some(10.0)),
            Row(2, Kind::Encke, Some(20.0)),
        ];
        let summary = FIGURE.summary(&rows);
        assert_eq!(summary.against(Kind::Epoll, Kind::Encke), Spread::of([3.0, 2.0]));
        assert_eq!(summary.against(Kind::Control, Kind::Encke), None);
        assert_eq!(summary.differences.get(&Kind::Encke).copied(), Spread::of([4.0, 10.0]));
        assert_eq!(summary.servers.get(&Kind::Control), None);
    }

    #[test]
    fn one_server_alone_is_compared_with_nothing() {
        let summary = FIGURE.summary(&[Row(1, Kind::Encke, Some(6.0))]);
        assert_eq!((summary.base, summary.ratios.len()), (None, 0));
    }
}
