//! Tests of pages with made-up results.

use std::time::Duration;

use super::run_page;
use crate::record::Times;
use crate::result::{
    ColumnKind, Document, Group, PathError, RunPhase, Sample, Settings, Verdict, extract_histograms,
};

const HOSTILE: &str = "<script>alert(1)</script>\"'&";

/// Returns the result of a run that lasted `seconds`, in which every name is hostile.
fn result(seconds: u32) -> Document {
    let mut document = Document { interrupted: true, ..Document::default() };
    for second in 1..=seconds {
        let t = f64::from(second);
        let sample = [
            (ColumnKind::Gauge, "connections", Some(t)),
            (ColumnKind::Gauge, "server.resident_bytes", Some(1e6 + t)),
            (ColumnKind::Gauge, "server.cores", None),
            (ColumnKind::Gauge, "server.level0", Some(t)),
            (ColumnKind::Gauge, "server.level1", Some(2.0)),
            (ColumnKind::Count, "errors", Some(f64::from(second % 2) * 4.0)),
            (ColumnKind::Count, "early", Some(0.0)),
            (ColumnKind::Count, HOSTILE, Some(2.0)),
            (ColumnKind::Time, "lateness_ms.p50", Some(0.0).filter(|_| second % 3 > 0)),
            (ColumnKind::Time, "lateness_ms.p99.9", Some(t)),
        ];
        let values = sample.map(|(kind, name, value)| (kind, name.to_owned(), value)).into();
        document.series.push(&Sample { t, values });
    }
    let lateness = Times::default();
    (0..2000).for_each(|millis| lateness.record(Duration::from_millis(millis)));
    document.phases = vec![RunPhase {
        name: HOSTILE.to_owned(),
        start_seconds: 0.0,
        end_seconds: f64::from(seconds),
        duration_seconds: f64::from(seconds),
    }];
    let numbers = Group::default()
        .with("errors", 3)
        .with("lateness_ms", lateness.summary())
        .with("nothing_ms", Times::default().summary())
        .with("server", Group::default().with("bytes_per_connection", 2318.0));
    document.numbers = extract_histograms(numbers, "", &mut document.histograms);
    document.settings =
        Settings { scenario: HOSTILE.to_owned(), url: HOSTILE.to_owned(), ..Settings::default() };
    let assertions = [(Some(false), Ok(3.0)), (None, Err(PathError::Unknown))];
    let verdict = |(holds, number)| Verdict { assert: HOSTILE.to_owned(), holds, number };
    document.assertions = assertions.map(verdict).into();
    document
}

/// Returns the titles of all plots: the first text of each.
fn titles(page: &str) -> Vec<&str> {
    let plots = page.split("<svg").skip(1);
    plots.filter_map(|plot| plot.split_once("<text")?.1.lines().nth(1)).collect()
}

#[test]
fn a_page_shows_everything_and_runs_nothing() {
    let page = run_page(&result(10));
    for bad in ["<script", "src=", "href=", "@import", "url("] {
        assert!(!page.contains(bad), "{bad} in the page");
    }
    let script = "&lt;script&gt;alert(1)&lt;/script&gt;";
    let expected = [
        "connections",
        "errors per second",
        &format!("{script}&quot;&apos;&amp; per second"),
        "lateness_ms",
        "lateness_ms by percentile",
        "server.resident, MiB",
        "server.level",
    ];
    assert_eq!(titles(&page), expected, "only what was measured is plotted");
    for text in ["server.bytes_per_connection", "2318 B", "interrupted", "failed", "p99.9\n", script] {
        assert!(page.contains(text), "{text}");
    }
    assert!(!page.contains("NaN") && !page.contains("inf,"), "{page}");
}

#[test]
fn short_and_long_runs_have_a_page() {
    for (seconds, plots) in [(0, 1), (1, 7), (2, 7), (7000, 7)] {
        let page = run_page(&result(seconds));
        assert_eq!(titles(&page).len(), plots, "{seconds} s");
        assert_eq!(page.contains("6k s\n"), seconds == 7000, "{seconds} s");
        assert!(page.len() < 1 << 18, "{} bytes", page.len());
    }
}
