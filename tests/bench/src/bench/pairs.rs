//! Figures of both servers, and the server's against the control's, pair by pair, run by run.

use std::collections::BTreeMap;

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
    pub(crate) of: fn(&R) -> f64,
}

/// A figure over all runs.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) encke: Option<Spread>,
    pub(crate) control: Option<Spread>,
    pub(crate) ratio: Option<Spread>,
    pub(crate) difference: Option<Spread>,
}

impl<R: Measured> Figure<R> {
    pub(crate) fn summary(&self, rows: &[R]) -> Summary {
        let all = |kind| rows.iter().filter(move |row| row.server() == kind);
        let of = |kind| Spread::of(all(kind).map(self.of));
        let pairs = || {
            all(Kind::Encke).filter_map(|encke| {
                let control = all(Kind::Control).find(|control| control.run() == encke.run())?;
                Some(((self.of)(encke), (self.of)(control)))
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
        cells.extend(figures.iter().map(|figure| format!("{:.*}", figure.decimals, (figure.of)(row))));
        cells.extend(cells_of(row));
        table.add_row(cells);
    }
    aligned(table)
}

/// Medians over the runs.
pub(crate) fn summary_table<R: Measured>(figures: &[Figure<R>], rows: &[R]) -> String {
    let mut table = new_table();
    table.set_header(["median (min .. max)", "encke", "control", "encke/control", "encke - control"]);
    for figure in figures {
        let Summary { encke, control, ratio, difference } = figure.summary(rows);
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
    aligned(table)
}

/// How many threads of which names each server has.
pub(crate) fn threads<R: Measured>(rows: &[R], of: impl Fn(&R) -> &BTreeMap<String, u32>) -> String {
    let told = |kind| {
        let row = rows.iter().find(|row| row.server() == kind);
        row.map_or_else(String::new, |row| list(of(row)))
    };
    format!("threads  encke: {}\n         control: {}", told(Kind::Encke), told(Kind::Control))
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
