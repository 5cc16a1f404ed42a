//! Tables on the terminal: a line for each structure, a column for each size.

use std::fmt::Display;
use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};

use super::Failure;

/// Prints a table with its title. Where there is no figure there is a dash.
pub(crate) fn print(
    title: &str,
    columns: &[String],
    lines: &[(String, Vec<Option<String>>)],
) -> Result<(), Failure> {
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

/// Says how far a long benchmark is.
pub(crate) fn progress(doing: impl Display) {
    // Nobody may be reading, and that is no reason to stop.
    let _ = writeln!(io::stderr(), "{doing}");
}
