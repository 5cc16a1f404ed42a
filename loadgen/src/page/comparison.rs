//! The page that compares several results.

use encke_plot::{Axis, HEIGHT, Line, LineStyle, Plot, Unit, colour};
use maud::{Markup, html};

use super::points::points;
use super::titles::title;
use super::{distributions, page, plots, section};
use crate::result::{Column, ColumnKind, Compared, Series, rows, show_ratio};

/// Maximum number of plots. Additional plots are left out, because a longer page would be hard to read.
const MAX_PLOTS: usize = 64;
/// Ratio above which a difference is shown in bold.
const NOTABLE_RATIO: f64 = 1.1;

pub(crate) fn comparison_page(results: &[Compared]) -> String {
    let names: Vec<_> = results.iter().map(|it| it.name.as_str()).collect();
    let title = format!("loadgen: {}", names.join(" and "));
    let body = html! {
        h1 { (title) }
        p { "Ratios are to " (names[0]) "." }
        ul.legend {
            @for (index, it) in results.iter().enumerate() {
                li {
                    i class={ "c" (index % 8) } {}
                    (it.name) " " small {
                        (it.document.text("scenario")) ", " (it.document.text("target")) " at " code { (it.document.text("url")) } ", "
                        (it.document.text("started_at"))
                    }
                }
            }
        }
        (plots("Distributions", &distributions(results)))
        (plots("Over time", &over_time(results)))
        (table(results))
    };
    page(&title, &body)
}

fn table(results: &[Compared]) -> Markup {
    let is_notable = |ratio: f64| !(1.0 / NOTABLE_RATIO..=NOTABLE_RATIO).contains(&ratio);
    html! {
        (section("Numbers"))
        div.scroll { table {
            tr {
                th {}
                @for (index, it) in results.iter().enumerate() {
                    th.n { (it.name) }
                    @if index > 0 { th.n { "ratio" } }
                }
            }
            @for row in rows(results) {
                tr {
                    td { code { (row.path) } }
                    @for (index, cell) in row.cells.iter().enumerate() {
                        td.n { (cell.text) }
                        @if index > 0 {
                            td.n { @if cell.ratio.is_some_and(is_notable) { b { (show_ratio(cell.ratio)) } }
                                   @else { (show_ratio(cell.ratio)) } }
                        }
                    }
                }
            }
        } }
    }
}

/// Plots each distribution that the results have, with all results in the same plot.
fn distributions(results: &[Compared]) -> Vec<Plot> {
    let histograms: Vec<_> = results.iter().map(|it| it.document.histograms()).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in histograms.iter().flatten() {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let plot = |name: &str| {
        let all = results.iter().zip(&histograms).enumerate();
        let named: Vec<_> = all
            .filter_map(|(index, (result, histograms))| {
                let (_, distribution) = histograms.iter().find(|(known, _)| *known == name)?;
                Some((index, result.name.clone(), distribution))
            })
            .collect();
        [distributions::histogram(name, &named), distributions::percentiles(name, &named)]
    };
    names.into_iter().flat_map(plot).flatten().take(MAX_PLOTS).collect()
}

/// Plots each column that any of the results has. Of the percentiles, only the 99th is plotted.
fn over_time(results: &[Compared]) -> Vec<Plot> {
    let series: Vec<Series> = results.iter().map(|it| it.document.series()).collect();
    let is_plotted = |column: &&Column| match column.kind {
        ColumnKind::Gauge => true,
        ColumnKind::Count => {
            !column.name.ends_with(".count") && column.values.iter().flatten().any(|it| *it > 0.0)
        }
        ColumnKind::Time => column.name.ends_with(".p99"),
    };
    let mut columns: Vec<(ColumnKind, &str)> = Vec::new();
    for column in series.iter().flat_map(|series| series.columns()).filter(is_plotted) {
        if !columns.contains(&(column.kind, column.name.as_str())) {
            columns.push((column.kind, &column.name));
        }
    }
    let end = series.iter().filter_map(|series| series.t().last().copied()).reduce(f64::max).unwrap_or(1.0);
    let plot = |(kind, name): (ColumnKind, &str)| {
        let lines = results.iter().zip(&series).enumerate().filter_map(|(index, (result, series))| {
            let points = points(series, series.column(kind, name)?);
            Some(Line { name: result.name.clone(), colour: colour(index), points })
        });
        let lines: Vec<_> = lines.collect();
        let highest = lines.iter().filter_map(Line::highest).reduce(f64::max)?;
        let unit = if kind == ColumnKind::Count { Unit::PerSecond } else { Unit::of(name) };
        Some(Plot {
            title: title(name),
            note: if kind == ColumnKind::Count { "per second".to_owned() } else { String::new() },
            x: Axis::time(end),
            y: Axis::from_zero(highest, unit),
            unit,
            bands: Vec::new(),
            lines,
            style: LineStyle::Lines,
            height: HEIGHT,
        })
    };
    columns.into_iter().filter_map(plot).take(MAX_PLOTS).collect()
}
