use std::collections::{BTreeMap, BTreeSet};

use encke_tests::server::run_to_end;

use super::Everything;

/// The labels of a metric, with their values.
type Labels = BTreeMap<String, BTreeSet<String>>;

/// Of a cell such as "`a`: `1`, `2`; `b`: `3`".
fn labels_of(cell: &str) -> Labels {
    let label = |text: &str| {
        let mut words = text.split('`').skip(1).step_by(2).map(str::to_owned);
        words.next().map(|name| (name, words.collect()))
    };
    cell.split("; ").filter_map(label).collect()
}

/// What the reference says: each metric by its name in the text, the kind and the labels.
fn told() -> BTreeMap<String, (String, Labels)> {
    let text = String::from_utf8(run_to_end(&["reference"], &[]).stdout).expect("it is text");
    let (_, metrics) = text.split_once("### Metrics").expect("it has metrics");
    let row = |line: &str| {
        let cells: Vec<_> = line.split(" | ").collect();
        let name = cells.first()?.strip_prefix("| `")?.strip_suffix('`')?.to_owned();
        Some((name, ((*cells.get(1)?).to_owned(), labels_of(cells.get(3)?))))
    };
    metrics.lines().filter_map(row).collect()
}

/// A series without its value: the name, and its labels but for the bound of a bucket.
fn series(line: &str) -> (&str, Vec<(&str, &str)>) {
    let (series, _) = line.rsplit_once(' ').expect("a value follows");
    let Some((name, labels)) = series.split_once('{') else { return (series, Vec::new()) };
    let labels = labels
        .trim_end_matches('}')
        .split("\",")
        .filter_map(|label| label.trim_end_matches('"').split_once("=\"").filter(|(name, _)| *name != "le"));
    (name, labels.collect())
}

#[test]
fn every_metric_that_a_server_shows_is_in_the_reference() {
    let told = told();
    let everything = Everything::start();
    let metrics = everything.server.admin.metrics();
    let mut shown = BTreeSet::new();
    for line in metrics.text().lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = series(line);
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
            let name = name.strip_suffix(end)?;
            told.get(name).filter(|(kind, _)| kind == "histogram").map(|found| (name, found))
        });
        let found = of_histogram.or_else(|| told.get(name).map(|found| (name, found)));
        let (name, (_, expected)) = found.unwrap_or_else(|| panic!("the reference lacks {line}"));
        shown.insert(name);
        for (label, value) in labels {
            let values = expected.get(label);
            assert!(values.is_some_and(|values| values.contains(value)), "{label}={value} of {name}");
        }
    }
    let told: BTreeSet<_> = told.keys().map(String::as_str).collect();
    assert_eq!(told, shown, "what the reference says and the server does not show");
}
