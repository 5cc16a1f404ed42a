//! Tests of `takeover`, which resumes sessions that are still connected.

use serde_json::{Value, json};

use crate::fake_sessions::{FakeSessions, SessionBehaviour};
use crate::run::{loadgen, number};

async fn takeover(replaced: Option<u16>, options: &str) -> Value {
    let server = FakeSessions::start(SessionBehaviour { replaced, ..SessionBehaviour::default() }).await;
    let run =
        format!("takeover {} --connections 20 --rate 1000 --duration 1s --json - {options}", server.url());
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!(json["connected"], 20);
    assert_eq!(json["taken"], 20);
    assert_eq!(json["unexpected_closes"], 0);
    json
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_connection_is_replaced() {
    let json = takeover(Some(4100), "").await;
    assert_eq!(json["replaced"], 20);
    assert_eq!(json["other_closes"], 0);
    assert_eq!(json["still_open"], 0);
    assert_eq!(json["close_codes"], json!({"4100": 20}));
    assert!(number(&json, "/replacement_ms/max") > 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_code_is_another_close() {
    let json = takeover(Some(1000), "").await;
    assert_eq!((&json["replaced"], &json["other_closes"]), (&json!(0), &json!(20)));
    let json = takeover(Some(1000), "--code 1000").await;
    assert_eq!((&json["replaced"], &json["other_closes"]), (&json!(20), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_open_connections_are_counted() {
    let json = takeover(None, "").await;
    assert_eq!(json["still_open"], 20);
    assert_eq!(json["replaced"], 0);
}
