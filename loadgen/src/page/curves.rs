//! Plots over time, from the series of a result.

use encke_plot::{Axis, HEIGHT, Line, LineStyle, Plot, Unit, colour};

use super::points::{points, rate_note};
use super::titles::title;
use crate::result::{Column, ColumnKind, Document, Series};

/// Counts that exist for every connection, and the titles of their plots.
const TRAFFIC: [(&str, &[&str]); 3] =
    [("Connects and closes", &["connects", "closes"]), ("Messages", &["messages"]), ("Pings", &["pings"])];
const CLOSE_CODE_PREFIX: &str = "closes.";
/// Maximum number of lines in one plot: more would be hard to tell apart.
const MAX_LINES: usize = 6;
/// Suffixes of the percentile columns of a timing. Columns that differ only in these suffixes share a plot.
const PERCENTILES: [&str; 5] = [".p50", ".p90", ".p99", ".p99.9", ".max"];
/// Ratio of the highest to the lowest value above which small values would be invisible on a linear axis.
const WIDE_RANGE: f64 = 30.0;

/// Plots the series of one run.
#[derive(Debug)]
pub(super) struct Curves {
    series: Series,
    bands: Vec<(f64, f64, String)>,
}

impl Curves {
    pub(super) fn of(document: &Document) -> Self {
        let bands = document.phases().into_iter().map(|phase| (phase.start, phase.end, phase.name));
        Self { series: document.series(), bands: bands.collect() }
    }

    /// Plots open connections and the traffic on them.
    pub(super) fn traffic(&self) -> Vec<Plot> {
        let open = self.find(ColumnKind::Gauge, |name| name == "connections");
        let mut plots = Vec::from_iter(self.plot("Open connections".to_owned(), Unit::Plain, &open));
        for (title, names) in TRAFFIC {
            let counts = self.find(ColumnKind::Count, |name| names.contains(&name));
            plots.extend(self.plot(title.to_owned(), Unit::PerSecond, &counts));
        }
        plots.extend(self.counts("Errors", |name| name == "errors"));
        plots.extend(self.counts("Closes by code", |name| name.starts_with(CLOSE_CODE_PREFIX)));
        plots
    }

    /// Plots the scenario's own counts. In a mix, the part of a name before the first dot is the scenario,
    /// and each scenario has separate plots.
    pub(super) fn events(&self) -> Vec<Plot> {
        let has_own_plot =
            |name: &str| TRAFFIC.iter().any(|(_, names)| names.contains(&name)) || name == "errors";
        let is_event = |name: &str| {
            !has_own_plot(name)
                && !name.starts_with(CLOSE_CODE_PREFIX)
                && !name.ends_with(".count")
                && !is_cost(name)
        };
        let mut scenarios: Vec<&str> = Vec::new();
        for column in self.find(ColumnKind::Count, is_event) {
            let scenario = scenario_of(&column.name);
            if !scenarios.contains(&scenario) {
                scenarios.push(scenario);
            }
        }
        let of_scenario = |scenario: &str| {
            let title = if scenario.is_empty() {
                "Events".to_owned()
            } else {
                format!("Events of {}", scenario.replace('_', " "))
            };
            self.counts(&title, |name| is_event(name) && scenario_of(name) == scenario)
        };
        scenarios.into_iter().flat_map(of_scenario).collect()
    }

    /// Plots the percentiles, second by second, of everything that is timed.
    pub(super) fn times(&self) -> Vec<Plot> {
        let times = self.find(ColumnKind::Time, |name| !is_cost(name));
        self.by_stem(&times, |stem| format!("{}, per second", title(stem)))
    }

    /// Plots the resource usage of the server or of loadgen: the columns with this prefix.
    pub(super) fn cost(&self, prefix: &str) -> Vec<Plot> {
        let measured = [ColumnKind::Gauge, ColumnKind::Time]
            .map(|kind| self.find(kind, |name| name.starts_with(prefix)));
        let mut plots = self.by_stem(&measured.concat(), title);
        for column in
            self.find(ColumnKind::Count, |name| name.starts_with(prefix) && !name.ends_with(".count"))
        {
            plots.extend(self.plot(title(&column.name), Unit::PerSecond, &[column]));
        }
        plots
    }

    /// Plots counts per second. Counts that stayed zero are left out, and counts of similar size share a
    /// plot.
    fn counts(&self, title: &str, is_selected: impl Fn(&str) -> bool) -> Vec<Plot> {
        let mut columns = self.find(ColumnKind::Count, is_selected);
        columns.retain(|column| column.values.iter().flatten().any(|count| *count > 0.0));
        columns.sort_by(|one, other| peak(other).total_cmp(&peak(one)));
        let mut groups: Vec<Vec<&Column>> = Vec::new();
        for column in columns {
            match groups.last_mut() {
                Some(group) if group.len() < MAX_LINES && peak(column) * WIDE_RANGE > peak(group[0]) => {
                    group.push(column)
                }
                _ => groups.push(vec![column]),
            }
        }
        let titles = (1_u32..).map(|number| match number {
            1 => title.to_owned(),
            2 => format!("{title}, smaller counts"),
            number => format!("{title}, smaller counts ({number})"),
        });
        let plots = groups.iter().zip(titles);
        plots.filter_map(|(group, title)| self.plot(title, Unit::PerSecond, group)).collect()
    }

    fn by_stem(&self, columns: &[&Column], title: impl Fn(&str) -> String) -> Vec<Plot> {
        let plots = columns.chunk_by(|one, other| stem(&one.name) == stem(&other.name)).filter_map(|group| {
            let stem = stem(&group[0].name);
            // Leave out unused levels: a wheel has many.
            let used =
                group.iter().copied().filter(|column| !is_numbered(&column.name) || peak(column) > 0.0);
            self.plot(title(stem), Unit::of(stem), &used.collect::<Vec<_>>())
        });
        plots.collect()
    }

    fn find(&self, kind: ColumnKind, is_selected: impl Fn(&str) -> bool) -> Vec<&Column> {
        self.series
            .columns()
            .iter()
            .filter(|column| column.kind == kind && is_selected(&column.name))
            .collect()
    }

    /// Plots the columns with a common axis. Returns `None` if nothing was measured.
    fn plot(&self, title: String, unit: Unit, columns: &[&Column]) -> Option<Plot> {
        let lines: Vec<_> =
            columns.iter().enumerate().map(|(index, column)| self.line(index, column)).collect();
        let highest = lines.iter().filter_map(Line::highest).reduce(f64::max)?;
        let values = lines.iter().flat_map(|line| &line.points).filter_map(|(_, y)| *y);
        let lowest = values.filter(|value| *value > 0.0).reduce(f64::min).unwrap_or(highest);
        let is_wide = unit == Unit::Millis && highest / lowest > WIDE_RANGE;
        let y =
            if is_wide { Axis::logarithmic(lowest, highest, unit) } else { Axis::from_zero(highest, unit) };
        let note = match (unit, is_wide) {
            (Unit::PerSecond, _) => rate_note(&self.series),
            (_, true) => "logarithmic".to_owned(),
            _ => String::new(),
        };
        let x = Axis::time(self.series.t().last().copied()?);
        Some(Plot {
            title,
            note,
            x,
            y,
            unit,
            bands: self.bands.clone(),
            lines,
            style: LineStyle::Lines,
            height: HEIGHT,
        })
    }

    fn line(&self, index: usize, column: &Column) -> Line {
        let points = points(&self.series, column);
        let percentile = PERCENTILES.iter().position(|end| column.name.ends_with(end));
        let (name, colour) = match percentile {
            Some(rank) => (PERCENTILES[rank].trim_start_matches('.').to_owned(), format!("q{rank}")),
            None => (column.name.clone(), colour(index)),
        };
        Line { name, colour, points }
    }
}

fn scenario_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(scenario, _)| scenario)
}

fn peak(column: &Column) -> f64 {
    column.values.iter().flatten().copied().fold(0.0, f64::max)
}

fn is_cost(name: &str) -> bool {
    name.starts_with("server.") || name.starts_with("loadgen.")
}

/// Returns a column's name without its percentile or level number.
fn stem(name: &str) -> &str {
    let stem = PERCENTILES.iter().find_map(|end| name.strip_suffix(end));
    stem.unwrap_or_else(|| name.trim_end_matches(|char: char| char.is_ascii_digit()))
}

/// Returns whether the name ends with a number, like `level2`.
fn is_numbered(name: &str) -> bool {
    name.ends_with(|char: char| char.is_ascii_digit()) && !PERCENTILES.iter().any(|end| name.ends_with(end))
}
