//! Table of the metrics of a server with every feature enabled.

use std::collections::{BTreeMap, BTreeSet};

use encke_server::documented::metrics_text;

use super::markdown::{code, table};

/// Returns a table with one row per metric.
pub(super) fn all() -> String {
    let text = metrics_text();
    let rows = parse(&text).into_iter().map(|metric| {
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
    let intro = "This table lists the metrics of `/metrics`, under the names that Prometheus stores, and all values of their labels. A histogram `H` is scraped as `H_bucket` (with `le`), `H_sum` and `H_count`. \
        The label value `NAME` stands for the name of a webhook (`webhook.name`).";
    format!("{intro}\n\n{}", table(["metric", "type", "unit", "labels", "meaning"], rows))
}

/// A metric with all of its labels.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DocumentedMetric<'a> {
    pub(super) name: &'a str,
    pub(super) kind: &'a str,
    pub(super) help: &'a str,
    /// Values of each label.
    pub(super) labels: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl DocumentedMetric<'_> {
    /// Returns the name of the metric in Prometheus.
    fn scraped_as(&self) -> String {
        if self.kind == "counter" { format!("{}_total", self.name) } else { self.name.to_owned() }
    }

    fn unit(&self) -> &'static str {
        ["seconds", "bytes"].into_iter().find(|unit| self.name.ends_with(unit)).unwrap_or("")
    }
}

/// Parses the OpenMetrics text format, in which the description of a metric precedes its values.
pub(super) fn parse(text: &str) -> Vec<DocumentedMetric<'_>> {
    let mut metrics: Vec<DocumentedMetric<'_>> = Vec::new();
    for line in text.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            metrics.push(DocumentedMetric { name, help, ..DocumentedMetric::default() });
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

/// Returns the labels of one value, except the bound of a bucket. Encke's label values contain no quotes.
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
    fn openmetrics_text_is_parsed() {
        let text = "# HELP a_b A count.\n# TYPE a_b counter\na_b_total{x=\"1\",y=\"2\"} 0\na_b_total{x=\"3\",y=\"2\"} 0\n\
            # HELP c_seconds A time.\n# TYPE c_seconds histogram\nc_seconds_bucket{le=\"1.0\",x=\"1\"} 0\n# EOF\n";
        let expected = [
            DocumentedMetric {
                name: "a_b",
                kind: "counter",
                help: "A count.",
                labels: [("x", ["1", "3"].into()), ("y", ["2"].into())].into(),
            },
            DocumentedMetric {
                name: "c_seconds",
                kind: "histogram",
                help: "A time.",
                labels: [("x", ["1"].into())].into(),
            },
        ];
        assert_eq!(parse(text), expected);
        assert_eq!(
            expected.map(|metric| (metric.scraped_as(), metric.unit())),
            [("a_b_total".into(), ""), ("c_seconds".into(), "seconds")]
        );
    }
}
