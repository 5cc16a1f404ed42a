//! Tests of `vanish`, which reconnects just before and just after the end of the reconnect window.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fake_sessions::{FakeSessions, SessionBehaviour, WINDOW};
use crate::run::{loadgen, number};

async fn vanish(behaviour: SessionBehaviour, options: &str) -> Value {
    let server = FakeSessions::start(behaviour).await;
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

/// Returns the numbers of resumed, early, refused and overdue sessions.
fn counts(json: &Value) -> [u64; 4] {
    ["resumed", "early", "refused", "overdue"]
        .map(|name| json[name].as_u64().unwrap_or_else(|| panic!("no count {name} in {json:#}")))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_correct_window_is_confirmed() {
    for kill in ["rst", "fin"] {
        let json = vanish(SessionBehaviour::default(), &format!("--kill {kill}")).await;
        assert_eq!(counts(&json), [10, 0, 10, 0], "{json:#}");
        assert_eq!(json["kill"], kill);
        assert_eq!(json["undecided"], 0);
        assert_eq!(json["overdue_ms"]["max"], json!(null));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_window_is_early() {
    let json =
        vanish(SessionBehaviour { keep_duration: WINDOW / 4, ..SessionBehaviour::default() }, "").await;
    assert_eq!(counts(&json), [0, 10, 10, 0], "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_does_not_end_is_overdue() {
    let json = vanish(
        SessionBehaviour { keep_duration: Duration::from_secs(3600), ..SessionBehaviour::default() },
        "",
    )
    .await;
    assert_eq!(counts(&json), [10, 0, 0, 10], "{json:#}");
    assert!(number(&json, "/overdue_ms/p50") >= 1000.0, "they reconnected 1 s late: {json:#}");
}
