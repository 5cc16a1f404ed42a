//! A result as a table for the terminal. It uses the same paths as assertions.

use comfy_table::{CellAlignment, Table, presets};
use encke_plot::Unit;

use super::distribution::PERCENTILES;
use super::document::Document;
use super::group::{Field, Group};

/// Limit below which bytes are shown exactly.
const MAX_EXACT_BYTES: f64 = 10_000.0;

impl Document {
    /// Returns a table of settings and numbers, followed by a table of percentiles.
    pub(crate) fn to_table(&self) -> String {
        let (mut plain, mut times) = (new_table(), new_table());
        times.set_header(["ms", "count"].into_iter().chain(percentile_names()));
        for (name, field) in self.settings().chain(self.numbers()) {
            add_rows(name, field, &mut plain, &mut times);
        }
        align(&mut plain);
        align(&mut times);
        if times.is_empty() { plain.to_string() } else { format!("{plain}\n{times}") }
    }
}

/// Columns of the table of percentiles, after the count.
pub(crate) fn percentile_names() -> impl Iterator<Item = &'static str> {
    PERCENTILES.iter().map(|(name, _)| *name).chain(["max"])
}

/// Returns whether the group holds the percentiles of a distribution.
pub(crate) fn is_distribution(group: &Group) -> bool {
    group.get("count").is_some() && group.get("p99.99").is_some()
}

/// Creates an empty table.
pub(crate) fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table
}

/// Aligns all columns except the first to the right. Must be called after all rows have been added.
pub(crate) fn align(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn add_rows(path: &str, field: &Field, plain: &mut Table, times: &mut Table) {
    match field {
        Field::Group(group) if is_distribution(group) => {
            let cell = |name| show(group.get(name).unwrap_or(&Field::Null));
            let cells = ["count"].into_iter().chain(percentile_names()).map(cell);
            times.add_row(std::iter::once(path.to_owned()).chain(cells));
        }
        Field::Group(group) => {
            for (name, field) in group.iter() {
                add_rows(&format!("{path}.{name}"), field, plain, times);
            }
        }
        field => drop(plain.add_row([path.to_owned(), show_at(path, field)])),
    }
}

/// Like [`show`], but formats large numbers of bytes with the units used in plots.
pub(crate) fn show_at(path: &str, field: &Field) -> String {
    match field.as_number() {
        Some(bytes) if Unit::of(path) == Unit::Bytes && bytes < MAX_EXACT_BYTES => format!("{bytes} B"),
        Some(bytes) if Unit::of(path) == Unit::Bytes => Unit::Bytes.show(bytes),
        _ => show(field),
    }
}

/// Formats one value in a few characters.
pub(crate) fn show(field: &Field) -> String {
    match field {
        Field::Null => "-".to_owned(),
        Field::Flag(flag) => flag.to_string(),
        Field::Count(count) => count.to_string(),
        Field::Real(number) => format!("{number:.3}"),
        Field::Text(text) => text.clone(),
        Field::List(list) => list.iter().map(show).collect::<Vec<_>>().join(" "),
        Field::Group(_) | Field::Distribution(_) => "...".to_owned(),
    }
}
