use std::collections::{BTreeMap, BTreeSet};

use encke_tests::Metrics;

const REFERENCE: &str = include_str!("../../../../server/docs/reference/metrics.md");

/// Names of a metric's labels, with their values.
type Labels = BTreeMap<String, BTreeSet<String>>;

/// Parses a cell such as "`a`: `1`, `2`; `b`: `3`".
fn labels_of(cell: &str) -> Labels {
    let label = |text: &str| {
        let mut words = text.split('`').skip(1).step_by(2).map(str::to_owned);
        words.next().map(|name| (name, words.collect()))
    };
    cell.split("; ").filter_map(label).collect()
}

/// Parses the reference. Returns the kind and the labels of each metric, keyed by its name in the text
/// format.
fn documented_metrics() -> BTreeMap<String, (String, Labels)> {
    let row = |line: &str| {
        let cells: Vec<_> = line.split(" | ").collect();
        let name = cells.first()?.strip_prefix("| `")?.strip_suffix('`')?.to_owned();
        Some((name, ((*cells.get(1)?).to_owned(), labels_of(cells.get(3)?))))
    };
    REFERENCE.lines().filter_map(row).collect()
}

/// Parses the name and the labels of a series, ignoring its value and bucket bounds.
fn series(line: &str) -> (&str, Vec<(&str, &str)>) {
    let (series, _) = line.rsplit_once(' ').expect("a series has a value");
    let Some((name, labels)) = series.split_once('{') else { return (series, Vec::new()) };
    let labels = labels
        .trim_end_matches('}')
        .split("\",")
        .filter_map(|label| label.trim_end_matches('"').split_once("=\"").filter(|(name, _)| *name != "le"));
    (name, labels.collect())
}

/// Asserts that the reference and the server list the same metrics, with the same types and labels.
pub(super) fn assert_documented(metrics: &Metrics) {
    let documented = documented_metrics();
    let mut exported = BTreeSet::new();
    for line in metrics.text().lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = series(line);
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
            let name = name.strip_suffix(end)?;
            documented.get(name).filter(|(kind, _)| kind == "histogram").map(|found| (name, found))
        });
        let found = of_histogram.or_else(|| documented.get(name).map(|found| (name, found)));
        let (name, (kind, expected)) = found.unwrap_or_else(|| panic!("the reference lacks {line}"));
        exported.insert(name);
        for comment in [format!("# TYPE {name} {kind}\n"), format!("# HELP {name} ")] {
            assert!(metrics.text().contains(&comment), "{comment}");
        }
        for (label, value) in labels {
            let values = expected.get(label);
            assert!(values.is_some_and(|values| values.contains(value)), "{label}={value} of {name}");
        }
    }
    let documented: BTreeSet<_> = documented.keys().map(String::as_str).collect();
    assert_eq!(documented, exported, "the reference and the server list the same metrics");
}
