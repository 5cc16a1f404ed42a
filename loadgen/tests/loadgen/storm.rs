//! `storm` drops everything at once and comes back.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use crate::fake_server::{Behaviour, FakeServer, LAST_SEQ};
use crate::run::{loadgen, number};

const PATIENT: Behaviour = Behaviour::GiveUpAfter(Duration::from_secs(10));

#[tokio::test(flavor = "multi_thread")]
async fn every_session_is_resumed_with_its_token_and_seq() {
    let server = FakeServer::start(|_| PATIENT).await;
    let run = format!("storm {} --connections 50 --rate 1000 --duration 1s --json -", server.url());
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!(json["connected"], 50);
    assert_eq!(json["dropped"], 50);
    assert_eq!(json["resumed"], 50);
    assert_eq!(json["errors"], 0);
    assert_eq!(json["unexpected_closes"], 0);
    let (seconds, max) = (number(&json, "/seconds"), number(&json, "/connect_ms/max"));
    assert!(0.0 < seconds && seconds < 10.0, "{json:#}");
    assert!((seconds * 1000.0 - max).abs() <= max / 100.0, "the slowest resume is the last one: {json:#}");
    let resumes: BTreeSet<_> = server.seen(|seen| seen.resumes.iter().cloned().collect());
    let expected = (0..50).map(|index| (format!("s_{index}.secret"), LAST_SEQ)).collect();
    assert_eq!(resumes, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_forgets_has_resumed_nothing() {
    let server = FakeServer::start(|_| Behaviour::Forget).await;
    let run = format!("storm {} --connections 10 --rate 1000 --duration 0s --json -", server.url());
    let json = loadgen(&run).await.json();
    assert_eq!(json["dropped"], 10);
    assert_eq!(json["resumed"], 0);
    assert_eq!(json["errors"], 10);
    assert_eq!(json["error_kinds"], json!({"not_recovered": 10}));
    assert_eq!(json["seconds"], json!(null));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_on_the_way_back_is_an_error() {
    let server = FakeServer::start(|index| if index < 10 { PATIENT } else { Behaviour::RefuseUpgrade }).await;
    let run = format!("storm {} --connections 10 --rate 1000 --duration 0s --json -", server.url());
    let json = loadgen(&run).await.json();
    assert_eq!(json["dropped"], 10);
    assert_eq!(json["resumed"], 0);
    assert_eq!(json["error_kinds"], json!({"http_503": 10}));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_closed_before_does_not_come_back() {
    let server =
        FakeServer::start(|index| if index < 4 { Behaviour::CloseWith(4002) } else { PATIENT }).await;
    let run = format!("storm {} --connections 10 --rate 1000 --duration 200ms --json -", server.url());
    let json = loadgen(&run).await.json();
    assert_eq!(json["connected"], 10);
    assert_eq!(json["unexpected_closes"], 4);
    assert_eq!(json["dropped"], 6);
    assert_eq!(json["resumed"], 6);
}
