//! Results as self-contained HTML pages: no scripts, no fonts, no network access. Plots are inline SVG. The
//! page and the plots take their colours from the style sheet, which has a light and a dark theme.

mod comparison;
mod curves;
mod distributions;
mod points;
mod tables;
#[cfg(test)]
mod tests;
mod tiles;
mod titles;

use encke_plot::{Plot, STYLE, digits};
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub(crate) use self::comparison::comparison_page;
use self::curves::Curves;
use crate::result::{Distribution, Document};

/// Suffix of latencies counted from the actual start of an operation instead of from the time at which it was
/// due.
const FROM_START_SUFFIX: &str = "_from_start_ms";

/// Returns the page for one run.
pub(crate) fn run_page(document: &Document) -> String {
    let curves = Curves::of(document);
    let title = format!("loadgen {}", document.text("scenario"));
    let body = html! {
        (heading(&title, document))
        (tiles::of(document))
        (tables::assertions(document))
        (plots("Over time", &[curves.traffic(), curves.events()].into_iter().flatten().collect::<Vec<_>>()))
        (plots("Latency over time", &curves.times()))
        (plots("Distributions", &distribution_plots(document)))
        (tables::percentiles(document))
        (plots("Server cost", &curves.cost("server.")))
        (tables::group("Server cost in numbers", document, "server"))
        (plots("loadgen's own cost", &curves.cost("loadgen.")))
        div.grid {
            div {
                (tables::settings(document))
                (tables::group("Close codes", document, "close_codes"))
                (tables::group("Errors", document, "error_kinds"))
            }
            div { (tables::numbers(document)) }
        }
    };
    page(&title, &body)
}

fn page(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                // Names and errors come from the server under test: this policy keeps them from loading or
                // running anything.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(include_str!("style.css"))) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

fn heading(title: &str, document: &Document) -> Markup {
    let aborted_by = document.text("aborted_by");
    let interrupted = document.flag("interrupted");
    html! {
        h1 { (title) }
        p { (document.text("target")) " at " code { (document.text("url")) } }
        p {
            (document.text("started_at"))
            @if let Ok(elapsed) = document.number("elapsed_seconds") { ", " (digits(elapsed)) " s" }
            @if interrupted { ", " span.bad { "interrupted: the numbers cover the time until then" } }
            @if !aborted_by.is_empty() { ", " span.bad { "ended early by " code { (aborted_by) } } }
        }
    }
}

/// Returns a heading with an anchor.
fn section(title: &str) -> Markup {
    let id: String =
        title.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    html! { h2 id=(id) { (title) } }
}

/// Returns a section of plots, or nothing if `plots` is empty.
fn plots(title: &str, plots: &[Plot]) -> Markup {
    html! {
        @if !plots.is_empty() {
            (section(title))
            div.grid { @for plot in plots { (plot.draw()) } }
        }
    }
}

/// Plots a histogram and the percentiles of each latency. Latencies counted from the due time and from the
/// actual start of the same operation share a plot.
fn distribution_plots(document: &Document) -> Vec<Plot> {
    let histograms = document.histograms();
    let find = |name: &str| histograms.iter().find(|(known, _)| *known == name).map(|(_, it)| it);
    let mut plots = Vec::new();
    for (name, distribution) in &histograms {
        let base = name.strip_suffix("_ms").unwrap_or(name);
        let from_start: Option<&Distribution> = find(&format!("{base}{FROM_START_SUFFIX}"));
        // Skip it: the plot of the latency counted from the due time already includes it.
        if name.strip_suffix(FROM_START_SUFFIX).is_some_and(|base| find(&format!("{base}_ms")).is_some()) {
            continue;
        }
        let first = if from_start.is_some() { "from when it was due" } else { base };
        let mut named = vec![(0, first.to_owned(), distribution)];
        named.extend(from_start.map(|it| (1, "from its actual start".to_owned(), it)));
        plots.extend(distributions::histogram(name, &named));
        plots.extend(distributions::percentiles(name, &named));
    }
    plots
}
