//! Results as HTML pages that need nothing else: no scripts, no fonts, no network. Plots are SVG within the page, and
//! both take their colours from the style sheet, for light and for dark ground.

mod comparison;
mod curves;
mod points;
mod spread;
mod tables;
#[cfg(test)]
mod tests;
mod tiles;
mod titles;

use encke_plot::{Plot, STYLE, digits};
use maud::{DOCTYPE, Markup, PreEscaped, html};

pub(crate) use self::comparison::of_comparison;
use self::curves::Curves;
use crate::result::{Distribution, Document};

/// What the name of a latency ends with that was counted from the actual start, not from when it was due.
const FROM_START: &str = "_from_start_ms";

/// The page of one run.
pub(crate) fn of_run(document: &Document) -> String {
    let curves = Curves::of(document);
    let title = format!("loadgen {}", document.text("scenario"));
    let body = html! {
        (heading(&title, document))
        (tiles::of(document))
        (tables::assertions(document))
        (plots("Over time", &[curves.traffic(), curves.events()].into_iter().flatten().collect::<Vec<_>>()))
        (plots("Latency over time", &curves.times()))
        (plots("Distributions", &spreads(document)))
        (tables::percentiles(document))
        (plots("The server's cost", &curves.cost("server.")))
        (tables::group("The server's cost in numbers", document, "server"))
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
                // Whatever a server called itself or its errors: nothing in this page is fetched or run.
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
            @if interrupted { ", " span.bad { "interrupted: the numbers are those until then" } }
            @if !aborted_by.is_empty() { ", " span.bad { "ended early by " code { (aborted_by) } } }
        }
    }
}

/// A heading that links can lead to.
fn section(title: &str) -> Markup {
    let id: String =
        title.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    html! { h2 id=(id) { (title) } }
}

/// A section of plots, if there are any.
fn plots(title: &str, plots: &[Plot]) -> Markup {
    html! {
        @if !plots.is_empty() {
            (section(title))
            div.grid { @for plot in plots { (plot.draw()) } }
        }
    }
}

/// Of each latency how many took how long, and the percentiles; both views of it in one plot.
fn spreads(document: &Document) -> Vec<Plot> {
    let histograms = document.histograms();
    let find = |name: &str| histograms.iter().find(|(known, _)| *known == name).map(|(_, it)| it);
    let mut plots = Vec::new();
    for (name, distribution) in &histograms {
        let base = name.strip_suffix("_ms").unwrap_or(name);
        let from_start: Option<&Distribution> = find(&format!("{base}{FROM_START}"));
        // It stands in the plot of the one that counts from when it was due.
        if name.strip_suffix(FROM_START).is_some_and(|base| find(&format!("{base}_ms")).is_some()) {
            continue;
        }
        let first = if from_start.is_some() { "from when it was due" } else { base };
        let mut named = vec![(0, first.to_owned(), distribution)];
        named.extend(from_start.map(|it| (1, "from its actual start".to_owned(), it)));
        plots.extend(spread::histogram(name, &named));
        plots.extend(spread::percentiles(name, &named));
    }
    plots
}
