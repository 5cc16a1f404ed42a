//! Tests of pages with made-up results.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use roxmltree::Document as Xml;

use super::{comparison_page, run_page};
use crate::record::Times;
use crate::result::Compared;
use crate::result::{ColumnKind, Document, Ending, Group, RunInfo, RunPhase, Sample, Series};

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

/// Returns the result of a run that lasted `seconds`, in which every name is hostile.
fn result(seconds: u32) -> Document {
    let mut series = Series::default();
    for second in 1..=seconds {
        let t = f64::from(second);
        let sample = [
            (ColumnKind::Gauge, "connections", Some(t)),
            (ColumnKind::Gauge, "server.resident_bytes", Some(1e6 + t)),
            (ColumnKind::Gauge, "server.cores", None),
            (ColumnKind::Gauge, "server.wheel_lateness_ms.p50", Some(0.01)),
            (ColumnKind::Gauge, "server.wheel_lateness_ms.p99", Some(5.0)),
            (ColumnKind::Gauge, "server.level0", Some(t)),
            (ColumnKind::Gauge, "server.level1", Some(2.0)),
            (ColumnKind::Gauge, "server.level2", Some(0.0)),
            (ColumnKind::Count, "errors", Some(1.0)),
            (ColumnKind::Count, "early", Some(0.0)),
            (ColumnKind::Count, HOSTILE, Some(2.0)),
            (ColumnKind::Time, "lateness_ms.p50", Some(0.5).filter(|_| second % 3 > 0)),
            (ColumnKind::Time, "lateness_ms.p99.9", Some(t)),
        ];
        let values = sample.map(|(kind, name, value)| (kind, name.to_owned(), value)).into();
        series.push(&Sample { t, values });
    }
    let lateness = Times::default();
    for millis in 0..2000 {
        lateness.record(Duration::from_millis(millis));
    }
    let run = RunInfo {
        started_at: SystemTime::UNIX_EPOCH,
        elapsed: Duration::from_secs(seconds.into()),
        ending: Ending::Interrupted,
        phases: vec![RunPhase::new(HOSTILE.to_owned(), 0.0, f64::from(seconds))],
    };
    let numbers = Group::default()
        .with("errors", 3)
        .with("lateness_ms", lateness.summary())
        .with("nothing_ms", Times::default().summary())
        .with("error_kinds", Group::default().with(HOSTILE, 3))
        .with("server", Group::default().with("bytes_per_connection", 2318.0));
    let settings = Group::default().with("scenario", HOSTILE).with("url", HOSTILE);
    Document::new(settings, run, numbers, &series)
        .with_assertions(vec![Group::default().with("assert", HOSTILE)])
}

/// Returns the titles of all plots. Panics if a plot is malformed or empty.
fn plots(page: &str) -> Vec<String> {
    let plot = |svg: &str| {
        let svg = format!("<svg{}</svg>", svg.split_once("</svg>").expect("every svg element is closed").0);
        let xml = Xml::parse(&svg).unwrap_or_else(|error| panic!("{error} in {svg}"));
        let drawn = |node: &roxmltree::Node<'_, '_>| {
            let is_line = node
                .attribute("class")
                .is_some_and(|class| class.starts_with("line ") || class.starts_with("steps "));
            (is_line && node.attribute("d").is_some_and(|d| !d.is_empty())) || node.has_tag_name("circle")
        };
        let title = xml.root_element().attribute("aria-label").expect("a plot has a title").to_owned();
        assert!(xml.descendants().any(|node| drawn(&node)), "{title} is empty");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        title
    };
    page.split("<svg").skip(1).map(plot).collect()
}

/// Asserts that nothing in the page can run or be fetched from elsewhere.
fn assert_harmless(page: &str) {
    for bad in ["<script", "src=", "href=", "http://", "https://", "@import", "url("] {
        assert!(!page.contains(bad), "{bad} in the page");
    }
    assert!(page.contains("&lt;script&gt;"), "names appear as text");
}

#[test]
fn a_page_shows_everything_and_runs_nothing() {
    let page = run_page(&result(10));
    assert_harmless(&page);
    let titles = plots(&page);
    for title in [
        "Open connections",
        "Errors",
        "Events",
        "Lateness, per second",
        "Resident memory of the server",
        "Server wheel lateness",
        "Server level",
        "Lateness: histogram",
        "Lateness: percentiles",
    ] {
        assert!(titles.iter().any(|known| known == title), "{title} in {titles:?}");
    }
    let distinct: BTreeSet<_> = titles.iter().collect();
    assert_eq!(distinct.len(), titles.len(), "titles are unique: {titles:?}");
    assert!(titles.iter().all(|title| !title.contains('_')), "titles are readable: {titles:?}");
    assert!(
        page.contains("server.level1") && !page.contains("server.level2"),
        "only levels in use are plotted"
    );
    for absent in ["Nothing", "Cores of the server", "Server level0"] {
        assert!(!titles.iter().any(|known| known == absent), "{absent} was not measured");
    }
    for text in ["bytes_per_connection", "interrupted", "prefers-color-scheme: dark"] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn short_and_long_runs_have_a_page() {
    for seconds in [0, 1, 2, 7000] {
        let page = run_page(&result(seconds));
        assert!(plots(&page).len() >= 2);
        assert!(page.len() < 1 << 20, "{} bytes", page.len());
    }
}

#[test]
fn a_comparison_has_all_results_in_each_plot() {
    let results = [("one", 10), (HOSTILE, 20), ("three", 0)]
        .map(|(name, seconds)| Compared { name: name.to_owned(), document: result(seconds) });
    let page = comparison_page(&results);
    assert_harmless(&page);
    let titles = plots(&page);
    for title in ["Lateness: percentiles", "Open connections", "Errors", "Lateness, p99.9"] {
        let is_present = titles.iter().any(|known| known == title);
        assert_eq!(is_present, title != "Lateness, p99.9", "{title} in {titles:?}");
    }
    assert!(page.contains("1.00x"));
}
