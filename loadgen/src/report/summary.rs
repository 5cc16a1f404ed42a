//! The result in about ten lines, for the terminal. `--json` has everything.

use comfy_table::{CellAlignment, Table, presets};

use crate::result::{Document, Field, Group, Settings};

/// Longest line of counts.
const WIDTH: usize = 100;
const PERCENTILES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];
/// Suffix of latencies counted from the actual start of an operation. They matter only if loadgen was late.
const FROM_START: &str = "_from_start_ms";

pub(super) fn summary(document: &Document) -> String {
    let result = &document.numbers;
    let mut lines = vec![headline(document)];
    lines.extend(counts(result));
    lines.extend(times(result));
    lines.extend(cost("server", result));
    lines.extend(cost("loadgen", result));
    lines.join("\n")
}

fn headline(document: &Document) -> String {
    let Document { settings, interrupted, aborted_by, elapsed_seconds, .. } = document;
    let ended = match aborted_by {
        Some(assertion) => format!(", ended early by {assertion}"),
        None if *interrupted => ", interrupted".to_owned(),
        None => String::new(),
    };
    let Settings { scenario, url, connections, .. } = settings;
    let at_most = if scenario == "churn" { "at most " } else { "" };
    format!("{scenario} {url}: {at_most}{connections} connections, {elapsed_seconds:.1} s{ended}")
}

/// Returns the counts of the scenario, as many on a line as fit. Groups of counts show what was counted, and
/// traffic only what is not zero.
fn counts(result: &Group) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (name, field) in result.iter().take_while(|(name, _)| *name != "traffic") {
        let text = match field {
            Field::Count(count) => format!("{name} {count}"),
            Field::Real(number) => format!("{name} {number:.3}"),
            Field::Group(times) if times.is_distribution() => continue,
            Field::Group(counts) => {
                let known =
                    counts.iter().filter_map(|(name, count)| Some(format!("{name}: {}", count.as_number()?)));
                let known: Vec<_> = known.collect();
                if known.is_empty() { continue } else { format!("{name} {{{}}}", known.join(", ")) }
            }
            _ => continue,
        };
        match lines.last_mut() {
            Some(line) if line.len() + text.len() < WIDTH => {
                line.push_str("  ");
                line.push_str(&text);
            }
            _ => lines.push(format!("  {text}")),
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

fn times(result: &Group) -> Option<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["  ms", "count"].into_iter().chain(PERCENTILES));
    for (name, field) in result.iter() {
        let Field::Group(times) = field else { continue };
        if !times.is_distribution() || times.number("count") == Ok(0.0) || name.ends_with(FROM_START) {
            continue;
        }
        let count = times.number("count").unwrap_or_default();
        let cells = PERCENTILES
            .iter()
            .map(|name| times.number(name).map_or_else(|_| "-".to_owned(), |ms| format!("{ms:.1}")));
        table.add_row([format!("  {name}"), count.to_string()].into_iter().chain(cells));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    (!table.is_empty()).then(|| table.trim_fmt())
}

/// Returns what a process used, if it was sampled.
fn cost(of: &str, result: &Group) -> Option<String> {
    let number = |path: &str| result.number(&format!("{of}.{path}")).ok();
    let mut parts = vec![format!("{:.2} cores", number("cores.mean")?)];
    parts.extend(number("cores.peak").map(|peak| format!("{peak:.2} at most")));
    parts.extend(number("resident_bytes.peak").map(|bytes| format!("{:.1} MiB", bytes / 1024.0 / 1024.0)));
    parts.extend(number("bytes_per_connection").map(|bytes| format!("{bytes} bytes per connection")));
    parts.extend(number("timers.lateness_ms.p99").map(|ms| format!("timers {ms} ms late (p99)")));
    parts.extend(number("lag_ms_max").map(|ms| format!("{ms:.0} ms late at most")));
    Some(format!("  {of}: {}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use indexmap::IndexMap;

    use super::*;
    use crate::record::{Metrics, Traffic};
    use crate::result::extract_histograms;

    #[test]
    fn a_summary_has_counts_times_and_costs() {
        let metrics = Metrics::new();
        metrics.counter("errors").add(1);
        metrics.counts("close_codes").increment("4000");
        metrics.times("connect_ms").record(Duration::from_millis(5));
        metrics.latency("resume");
        metrics.add_traffic(&Traffic::default());
        let numbers = extract_histograms(metrics.result(), "", &mut IndexMap::new());
        let cores = Group::default().with("mean", 0.5).with("peak", 0.75);
        let (scenario, url) = ("hold".to_owned(), "ws://h/ws".to_owned());
        let text = summary(&Document {
            settings: Settings { scenario, url, connections: 9, ..Settings::default() },
            elapsed_seconds: 1.5,
            interrupted: true,
            numbers: numbers.with("server", Group::default().with("cores", cores)),
            ..Document::default()
        });
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "hold ws://h/ws: 9 connections, 1.5 s, interrupted");
        assert_eq!(lines[1], "  errors 1  close_codes {4000: 1}");
        assert!(lines[3].contains("connect_ms") && !text.contains("resume"), "{text}");
        assert_eq!(lines[4], "  server: 0.50 cores, 0.75 at most");
    }
}
