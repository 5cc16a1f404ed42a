//! Terminal tables with one line per structure and one column per size.

use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};

use super::BenchError;

/// Prints a table with its title. A missing result is shown as a dash.
pub fn print(
    title: &str,
    columns: &[String],
    lines: &[(String, Vec<Option<String>>)],
) -> Result<(), BenchError> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header([String::new()].into_iter().chain(columns.iter().cloned()));
    for (name, cells) in lines {
        let cells = cells.iter().map(|cell| cell.clone().unwrap_or_else(|| "-".to_owned()));
        table.add_row([name.clone()].into_iter().chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    writeln!(io::stdout(), "\n{title}\n{table}")?;
    Ok(())
}

pub fn progress(doing: impl Display) {
    // Ignore errors: a closed stderr is no reason to stop.
    let _ = writeln!(io::stderr(), "{doing}");
}
