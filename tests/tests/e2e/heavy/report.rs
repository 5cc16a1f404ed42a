//! The load generator's report pages in Chromium: light and dark, wide and narrow.

use std::path::Path;

use encke_tests::loadgen::LoadgenReport;
use encke_tests::waiting::heavy_test_lock;
use encke_tests::{RunningServer, Script};
use serde_json::{Value, json};

/// Minimum contrasts that WCAG requires for text and for graphics.
const TEXT_CONTRAST: f64 = 4.5;
const LINE_CONTRAST: f64 = 3.0;

/// Runs a scenario that writes its page to `page`.
fn run(scenario: &str, server: &RunningServer, arguments: &[&str], page: &Path) {
    let page = page.to_str().expect("the path is text");
    drop(LoadgenReport::run(scenario, server, &[arguments, &["--html", page]].concat()));
}

#[track_caller]
fn assert_readable(page: &Path) {
    let script = Script::start_in_browser("report.mjs", &[page.to_str().expect("the path is text")]);
    for nth in 1..=4 {
        let view = script.await_value("view", nth);
        for name in ["empty", "overlapping", "outside"] {
            assert_eq!(view[name], json!([]), "{name} in {view:#}");
        }
        assert_eq!(view["isTooWide"], false, "{view:#}");
        let contrast = |name: &str| view[name].as_f64().unwrap_or_else(|| panic!("no {name} in {view:#}"));
        assert!(contrast("textContrast") >= TEXT_CONTRAST, "{view:#}");
        assert!(contrast("lineContrast") >= LINE_CONTRAST, "{view:#}");
        assert!(view["plots"].as_u64() >= Some(8), "{view:#}");
    }
    assert_eq!(script.values("fault"), Vec::<Value>::new());
}

#[test]
fn pages_are_readable_and_load_nothing() {
    let _lock = heavy_test_lock();
    let server = RunningServer::with(&["session.ping_interval=1s", "session.pong_timeout=500ms"]);
    let place = tempfile::tempdir().expect("a temporary directory can be created");
    let [mute, fanout] = ["mute", "fanout"].map(|name| place.path().join(format!("{name}.html")));
    let connections = ["--connections", "100", "--rate", "100"];
    run("mute", &server, &[&connections[..], &["--duration", "10s", "--share", "0.5"]].concat(), &mute);
    let messages = ["--messages", "100", "--publish-rate", "25", "--cut-after", "2s"];
    run("fanout", &server, &[&connections[..], &messages].concat(), &fanout);
    for page in [&mute, &fanout] {
        assert_readable(page);
    }
}
