//! Tests of `late`, which answers just before and just after the deadline.

use std::time::Duration;

use serde_json::Value;

use crate::fake_server::{Behaviour, FakeServer, PONG_TIMEOUT};
use crate::run::{loadgen, number};

const MARGIN: &str = "100ms";

async fn late(timeout: Duration, duration: &str) -> Value {
    let server = FakeServer::start(move |_| Behaviour::GiveUpAfter(timeout)).await;
    let run = format!(
        "late {} --connections 20 --rate 1000 --duration {duration} --margin {MARGIN} --json -",
        server.url()
    );
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!(json["connected"], 20);
    assert_eq!(json["too_late"], 10);
    json
}

#[tokio::test(flavor = "multi_thread")]
async fn a_correct_deadline_is_confirmed() {
    let json = late(PONG_TIMEOUT + Duration::from_millis(30), "1500ms").await;
    assert_eq!(json["closed_in_time"], 0, "{json:#}");
    assert!(number(&json, "/in_time") >= 10.0, "{json:#}");
    assert_eq!(json["closed"], 10);
    assert_eq!(json["early"], 0);
    assert_eq!(json["forgiven"], 0);
    assert_eq!(json["still_open"], 0);
    assert!(number(&json, "/lateness_ms/p50") >= 10.0, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_deadline_closes_clients_that_are_in_time() {
    let json = late(PONG_TIMEOUT / 2, "1h").await;
    assert_eq!(json["closed_in_time"], 10);
    assert_eq!(json["closed"], 10);
    assert_eq!(json["early"], 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_before_a_deadline_can_pass_is_refused() {
    let server = FakeServer::start(|_| Behaviour::GiveUpAfter(PONG_TIMEOUT)).await;
    let ended = loadgen(&format!("late {} --connections 1000 --rate 100 --duration 1s", server.url())).await;
    ended.assert_code(2);
    assert!(ended.stderr.contains("the server pings every 1s and waits 400ms"), "{}", ended.stderr);
    assert!(server.seen(|seen| seen.greeted) < 1000, "the first hello is enough to refuse the run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_deadline_forgives() {
    let json = late(Duration::from_secs(3600), "1500ms").await;
    assert_eq!(json["forgiven"], 10);
    assert_eq!(json["closed"], 0);
    assert_eq!(json["early"], 0);
}
