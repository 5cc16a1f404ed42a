//! `vanish` reconnects just before and just after the end of the reconnect window.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fake_sessions::{FakeSessions, Manners, WINDOW};
use crate::run::{loadgen, number};

async fn vanish(manners: Manners, options: &str) -> Value {
    let server = FakeSessions::start(manners).await;
    let run = format!(
        "vanish {} --connections 20 --rate 1000 --duration 50ms --margin 1s --json - {options}",
        server.url()
    );
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!(json["connected"], 20);
    assert_eq!(json["killed"], 20);
    assert_eq!(json["errors"], 0);
    json
}

/// Returns resumed, early, refused and overdue.
fn counts(json: &Value) -> [u64; 4] {
    ["resumed", "early", "refused", "overdue"]
        .map(|name| json[name].as_u64().unwrap_or_else(|| panic!("no count {name} in {json:#}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_kept_to_is_found_so() {
    for kill in ["rst", "fin"] {
        let json = vanish(Manners::default(), &format!("--kill {kill}")).await;
        assert_eq!(counts(&json), [10, 0, 10, 0], "{json:#}");
        assert_eq!(json["kill"], kill);
        assert_eq!(json["undecided"], 0);
        assert_eq!(json["overdue_ms"]["max"], json!(null));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_that_is_cut_short_is_early() {
    let json = vanish(Manners { keeps_for: WINDOW / 4, ..Manners::default() }, "").await;
    assert_eq!(counts(&json), [0, 10, 10, 0], "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_does_not_end_is_overdue() {
    let json = vanish(Manners { keeps_for: Duration::from_secs(3600), ..Manners::default() }, "").await;
    assert_eq!(counts(&json), [10, 0, 0, 10], "{json:#}");
    assert!(number(&json, "/overdue_ms/p50") >= 1000.0, "they reconnected 1 s late: {json:#}");
}
