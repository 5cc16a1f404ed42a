//! The tables on a page.

use maud::{Markup, html};

use super::section;
use crate::result::{Document, Field, Group, is_distribution, percentile_names, show, show_at};

pub(super) fn assertions(document: &Document) -> Markup {
    let list = document.assertions();
    html! {
        @if !list.is_empty() {
            (section("Assertions"))
            div.scroll { table {
                tr { th { "assertion" } th { "" } th.n { "value" } }
                @for group in list {
                    tr {
                        td { code { (text(group, "assert")) } }
                        td {
                            @match group.get("holds") {
                                Some(Field::Flag(true)) => span.good { "holds" },
                                Some(Field::Flag(false)) => span.bad { "failed" },
                                _ => span.bad { "invalid" },
                            }
                        }
                        td.n { (text(group, "number")) }
                    }
                }
            } }
        }
    }
}

/// Returns a table with the percentiles of everything that was timed.
pub(super) fn percentiles(document: &Document) -> Markup {
    let mut rows = Vec::new();
    for (name, field) in document.numbers() {
        find_percentiles(name, field, &mut rows);
    }
    html! {
        @if !rows.is_empty() {
            (section("Percentiles, in milliseconds"))
            div.scroll { table {
                tr { th {} th.n { "count" } @for name in percentile_names() { th.n { (name) } } }
                @for (path, group) in &rows {
                    tr {
                        td { code { (path) } }
                        td.n { (text(group, "count")) }
                        @for name in percentile_names() { td.n { (text(group, name)) } }
                    }
                }
            } }
        }
    }
}

fn find_percentiles<'a>(path: &str, field: &'a Field, rows: &mut Vec<(String, &'a Group)>) {
    match field {
        Field::Group(group) if is_distribution(group) => rows.push((path.to_owned(), group)),
        Field::Group(group) => {
            for (name, field) in group.iter() {
                find_percentiles(&format!("{path}.{name}"), field, rows);
            }
        }
        _ => {}
    }
}

/// Returns a table of one group of the result, or nothing if the group is missing or empty.
pub(super) fn group(title: &str, document: &Document, name: &str) -> Markup {
    let group = document.as_group().get(name).and_then(Field::as_group);
    let rows: Vec<_> = group.map(|group| flatten("", group.iter())).unwrap_or_default();
    table(title, &rows)
}

pub(super) fn settings(document: &Document) -> Markup {
    table("Settings", &flatten("", document.settings()))
}

pub(super) fn numbers(document: &Document) -> Markup {
    table("All numbers", &flatten("", document.numbers()))
}

fn table(title: &str, rows: &[(String, String)]) -> Markup {
    html! {
        @if !rows.is_empty() {
            (section(title))
            div.scroll { table {
                @for (path, value) in rows { tr { td { code { (path) } } td.n { (value) } } }
            } }
        }
    }
}

/// Flattens fields into paths and values, without percentiles.
fn flatten<'a>(prefix: &str, fields: impl Iterator<Item = (&'a str, &'a Field)>) -> Vec<(String, String)> {
    let rows = fields.flat_map(|(name, field)| match field {
        Field::Group(group) if is_distribution(group) => Vec::new(),
        Field::Group(group) => {
            flatten(&format!("{prefix}{name}."), group.iter().collect::<Vec<_>>().into_iter())
        }
        field => {
            let path = format!("{prefix}{name}");
            let value = show_at(&path, field);
            vec![(path, value)]
        }
    });
    rows.collect()
}

fn text(group: &Group, name: &str) -> String {
    show(group.get(name).unwrap_or(&Field::Null))
}
