//! Tests of `churn`, which opens connections at random times and closes them after random lifetimes.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fake_server::{Behaviour, FakeServer};
use crate::run::{loadgen, number};

async fn churn(server: &FakeServer, options: &str) -> Value {
    let run = format!("churn {} --rate 200 --duration 1s --json - {options}", server.url());
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    ended.json()
}

async fn holding_server() -> FakeServer {
    FakeServer::start(|_| Behaviour::GiveUpAfter(Duration::from_secs(10))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn arrivals_follow_the_rate_and_leave_after_their_lifetime() {
    let json = churn(&holding_server().await, "--lifetime fixed:100ms").await;
    // Expect 200 on average, with a standard deviation of 14.
    let arrived = number(&json, "/arrived");
    assert!((130.0..270.0).contains(&arrived), "{json:#}");
    assert_eq!(json["skipped"], 0);
    assert_eq!(json["errors"], 0);
    let on_their_way = number(&json, "/connecting_at_end");
    assert_eq!(number(&json, "/connected"), arrived - on_their_way, "{json:#}");
    assert!(number(&json, "/left") >= arrived / 2.0, "all but the arrivals of the last 100 ms: {json:#}");
    assert_eq!(json["unexpected_closes"], 0);
    assert_eq!(json["expected_open"], 20.0);
    assert!(number(&json, "/connect_from_start_ms/p50") <= number(&json, "/connect_ms/p50"), "{json:#}");
    assert_all_are_accounted_for(&json);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_seed_gives_the_same_arrivals() {
    let server = holding_server().await;
    let first = churn(&server, "--seed 7").await;
    assert_eq!(churn(&server, "--seed 7").await["arrived"], first["arrived"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn arrivals_over_the_limit_are_skipped() {
    let json = churn(&holding_server().await, "--lifetime fixed:1h --max-open 10").await;
    assert_eq!(json["connected"], 10);
    assert_eq!(json["peak_open"], 10);
    assert_eq!(number(&json, "/skipped"), number(&json, "/arrived") - 10.0);
    assert_eq!(json["left"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_connections_have_not_left() {
    let server = FakeServer::start(|_| Behaviour::CloseWith(4002)).await;
    let json = churn(&server, "--lifetime fixed:1h").await;
    assert!(number(&json, "/unexpected_closes") > 0.0, "{json:#}");
    assert_eq!(json["left"], 0);
    assert_eq!(json["close_codes"], json!({"4002": json["unexpected_closes"]}));
    assert_all_are_accounted_for(&json);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_connecting_or_open_at_the_end_are_counted() {
    // The first connection stays open, the second never receives its hello, and all others are closed.
    let server = FakeServer::start(|index| match index {
        0 => Behaviour::GiveUpAfter(Duration::from_secs(10)),
        1 => Behaviour::NeverGreet,
        _ => Behaviour::CloseWith(4002),
    })
    .await;
    let json = churn(&server, "--lifetime fixed:1h").await;
    assert!(number(&json, "/open_at_end") >= 1.0, "{json:#}");
    assert!(number(&json, "/connecting_at_end") >= 1.0, "{json:#}");
    assert_all_are_accounted_for(&json);
}

/// Asserts that every arrival is counted in exactly one stage, and every connection with exactly one end.
fn assert_all_are_accounted_for(json: &Value) {
    let sum = |names: &[&str]| names.iter().map(|name| number(json, name)).sum::<f64>();
    let arrivals = ["/skipped", "/errors", "/connecting_at_end", "/connected"];
    assert_eq!(sum(&arrivals), number(json, "/arrived"), "{json:#}");
    let connections = ["/left", "/unexpected_closes", "/open_at_end"];
    assert_eq!(sum(&connections), number(json, "/connected"), "{json:#}");
}
