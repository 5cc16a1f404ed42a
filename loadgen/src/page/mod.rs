//! Results as self-contained HTML pages: no scripts, no fonts, no network access. Plots are inline SVG. The
//! page follows the browser's light or dark theme.

mod line_plot;
mod plots;
#[cfg(test)]
mod tests;

use bytesize::ByteSize;
use indicatif::HumanFloatCount;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use self::plots::{distributions, over_time};
use crate::result::{Column, ColumnKind, Document, Field, Group, PERCENTILES, Verdict};

/// Numbers at the top of a page. Those that the result does not have are left out.
const HEADLINES: &str = "traffic.connections_max traffic.connects connect_ms.p99 traffic.messages latency_ms.p99 \
    deliveries_per_second lateness_ms.p99 resumed resume_ms.p99 all_back_seconds";
/// Headlines of which any value above zero is a fault.
const FAULTS: &str =
    "errors unexpected_closes early still_open lost duplicated misordered not_recovered gaps";

/// Limit below which bytes are shown exactly.
const MAX_EXACT_BYTES: f64 = 10_000.0;

pub(crate) fn run_page(document: &Document) -> String {
    let Document { settings, numbers, series, assertions, histograms, .. } = document;
    let is_cost = |it: &Column<'_>| it.name.starts_with("server.") || it.name.starts_with("loadgen.");
    let is_time = |it: &Column<'_>| it.kind == ColumnKind::Time;
    let (numbers, settings) = (flatten(numbers), Group::of(settings));
    let title = format!("loadgen {}", document.settings.scenario);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // Names and errors come from the server under test: this policy keeps them from loading or
                // running anything.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                h1 { (title) }
                (heading(document))
                (headlines(&document.numbers))
                (assertions_table(assertions))
                (section("Over time", &over_time(series, |it| !is_time(it) && !is_cost(it))))
                (section("Latency over time", &over_time(series, |it| is_time(it) && !is_cost(it))))
                (section("Latency by percentile", &distributions(histograms)))
                (percentiles(&numbers))
                (section("Server", &over_time(series, |it| it.name.starts_with("server."))))
                (section("loadgen", &over_time(series, |it| it.name.starts_with("loadgen."))))
                (table("Settings", &flatten(&settings)))
                (table("All numbers", &numbers))
            }
        }
    };
    page.into_string()
}

fn heading(document: &Document) -> Markup {
    let Document { settings, started_at, interrupted, aborted_by, elapsed_seconds, phases, .. } = document;
    html! {
        p { (settings.target) " at " code { (settings.url) } ", " (started_at) (format!(", {elapsed_seconds:.1} s")) }
        @if *interrupted { p.bad { "interrupted: the numbers cover the time until then" } }
        @if let Some(assertion) = aborted_by { p.bad { "ended early by " code { (assertion) } } }
        p {
            @for it in phases { (it.name) (format!(": {:.1} to {:.1} s. ", it.start_seconds, it.end_seconds)) }
        }
    }
}

fn headlines(numbers: &Group) -> Markup {
    let faults = FAULTS.split(' ').map(|path| (path, true));
    let paths = HEADLINES.split(' ').map(|path| (path, false)).chain(faults);
    let numbers = paths.filter_map(|(path, is_fault)| Some((path, is_fault, numbers.number(path).ok()?)));
    html! {
        div.tiles {
            @for (path, is_fault, number) in numbers {
                @let rounded = HumanFloatCount((number * 100.0).round() / 100.0).to_string();
                div.bad[is_fault && number > 0.0] { b { (rounded) } (path) }
            }
        }
    }
}

fn section(title: &str, plots: &[String]) -> Markup {
    html! { @if !plots.is_empty() { h2 { (title) } div.grid { @for plot in plots { figure { (PreEscaped(plot)) } } } } }
}

fn assertions_table(verdicts: &[Verdict]) -> Markup {
    html! {
        @if !verdicts.is_empty() {
            h2 { "Assertions" }
            div.scroll { table {
                @for Verdict { assert, holds, number } in verdicts {
                    tr {
                        td { code { (assert) } }
                        @match holds {
                            Some(true) => { td.good { "holds" } }
                            Some(false) => { td.bad { "failed" } }
                            None => { td.bad { "invalid" } }
                        }
                        td { @if let Ok(number) = number { (number) } }
                    }
                }
            } }
        }
    }
}

fn percentiles(numbers: &[(String, &Field)]) -> Markup {
    let rows = numbers.iter().filter_map(|(path, field)| Some((path, field.as_group()?)));
    let names = || ["count"].into_iter().chain(PERCENTILES.map(|(name, _)| name)).chain(["max"]);
    html! {
        h2 { "Percentiles, in milliseconds" }
        div.scroll { table {
            tr { th {} @for name in names() { th { (name) } } }
            @for (path, group) in rows {
                tr { td { code { (path) } } @for name in names() { td { (show(name, group.get(name).unwrap_or(&Field::Null))) } } }
            }
        } }
    }
}

fn table(title: &str, rows: &[(String, &Field)]) -> Markup {
    let rows = rows.iter().filter(|(_, field)| field.as_group().is_none());
    html! {
        h2 { (title) }
        div.scroll { table { @for (path, field) in rows { tr { td { code { (path) } } td { (show(path, field)) } } } } }
    }
}

/// Returns the paths and values of all fields. The percentiles of a distribution stay one value.
fn flatten(group: &Group) -> Vec<(String, &Field)> {
    let flat = group.iter().flat_map(|(name, field)| match field.as_group() {
        Some(group) if !group.is_distribution() => {
            flatten(group).into_iter().map(|(path, field)| (format!("{name}.{path}"), field)).collect()
        }
        _ => vec![(name.to_owned(), field)],
    });
    flat.collect()
}

/// Formats the value at a path in a few characters. Numbers of bytes have a unit.
fn show(path: &str, field: &Field) -> String {
    let is_bytes = path.split(['_', '.']).any(|word| word == "bytes");
    if let Some(bytes) = field.as_number().filter(|_| is_bytes) {
        if bytes < MAX_EXACT_BYTES {
            return format!("{bytes} B");
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is positive")]
        return format!("{:.2}", ByteSize::b(bytes as u64).display().iec());
    }
    match field {
        Field::Null => "-".to_owned(),
        Field::Flag(flag) => flag.to_string(),
        Field::Count(count) => count.to_string(),
        Field::Real(number) => format!("{number:.3}"),
        Field::Text(text) => text.clone(),
        Field::List(list) => list.iter().map(|field| show("", field)).collect::<Vec<_>>().join(" "),
        Field::Group(_) | Field::Distribution(_) => "...".to_owned(),
    }
}
