//! The metrics of a server that uses everything, as it shows them.

use std::collections::{BTreeMap, BTreeSet};

use super::everything::metrics;
use super::markdown::{code, table};

/// One line each.
pub(super) fn all() -> String {
    let text = metrics();
    let rows = read(&text).into_iter().map(|metric| {
        let labels = metric.labels.iter().map(|(name, values)| {
            format!(
                "{}: {}",
                code(name),
                values.iter().map(|value| code(value)).collect::<Vec<_>>().join(", ")
            )
        });
        let labels = labels.collect::<Vec<_>>().join("; ");
        [
            code(&metric.scraped_as()),
            metric.kind.to_owned(),
            metric.unit().to_owned(),
            labels,
            metric.help.to_owned(),
        ]
    });
    let intro = "As Prometheus scrapes them from `/metrics`, with every value that a label may have. A histogram `NAME` is scraped as `NAME_bucket` (with `le`), `NAME_sum` \
        and `NAME_count`. `NAME` is the name of a webhook (`webhook.name`).";
    format!("{intro}\n\n{}", table(["metric", "type", "unit", "labels", "what it counts"], rows))
}

/// One metric with all its labels.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Metric<'a> {
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    pub(super) help: &'a str,
    /// With their values.
    pub(super) labels: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl Metric<'_> {
    /// As Prometheus knows it.
    fn scraped_as(&self) -> String {
        if self.kind == "counter" { format!("{}_total", self.name) } else { self.name.to_owned() }
    }

    fn unit(&self) -> &'static str {
        ["seconds", "bytes"].into_iter().find(|unit| self.name.ends_with(unit)).unwrap_or("")
    }
}

/// Reads the text format of OpenMetrics, in which each metric's description comes before its values.
pub(super) fn read(text: &str) -> Vec<Metric<'_>> {
    let mut metrics: Vec<Metric<'_>> = Vec::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            metrics.push(Metric { name, help, ..Metric::default() });
            continue;
        }
        let Some(metric) = metrics.last_mut() else { continue };
        if let Some((_, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            metric.kind = kind;
        } else if !line.starts_with('#') {
            for (name, value) in labels(line) {
                metric.labels.entry(name).or_default().insert(value);
            }
        }
    }
    metrics
}

/// The labels of one value, but for the bound of a bucket. Ours have no quotes in them.
fn labels(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let labels =
        line.split_once('{').and_then(|(_, rest)| rest.rsplit_once('}')).map_or("", |(labels, _)| labels);
    labels
        .split("\",")
        .filter_map(|label| label.trim_end_matches('"').split_once("=\""))
        .filter(|(name, _)| *name != "le")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_text_says() {
        let text = "# HELP a_b So many.\n# TYPE a_b counter\na_b_total{x=\"1\",y=\"2\"} 0\na_b_total{x=\"3\",y=\"2\"} 0\n\
            # HELP c_seconds So long.\n# TYPE c_seconds histogram\nc_seconds_bucket{le=\"1.0\",x=\"1\"} 0\n# EOF\n";
        let expected = [
            Metric {
                name: "a_b",
                kind: "counter",
                help: "So many.",
                labels: [("x", ["1", "3"].into()), ("y", ["2"].into())].into(),
            },
            Metric {
                name: "c_seconds",
                kind: "histogram",
                help: "So long.",
                labels: [("x", ["1"].into())].into(),
            },
        ];
        assert_eq!(read(text), expected);
        assert_eq!(
            expected.map(|metric| (metric.scraped_as(), metric.unit())),
            [("a_b_total".into(), ""), ("c_seconds".into(), "seconds")]
        );
    }
}
