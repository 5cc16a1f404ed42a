//! Tests of `churn`, which opens connections at random times and closes them after random lifetimes.

use std::time::Duration;

use encke_loadgen::FaultyServer;
use encke_loadgen::behaviour::{Behaviour, HONEST};
use serde_json::{Value, json};

use crate::run::{CLOSES, PATIENT, assert_has, number, patient_server, report, server};

async fn churn(server: &FaultyServer, options: &str) -> Value {
    report(&format!("churn {} --rate 200 --duration 1s {options}", server.url())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn arrivals_follow_the_rate_and_leave_after_their_lifetime() {
    let json = churn(&patient_server().await, "--lifetime fixed:100ms").await;
    // Expect 200 on average, with a standard deviation of 14.
    let arrived = number(&json, "/arrived");
    assert!((130.0..270.0).contains(&arrived), "{json:#}");
    assert_has(&json, &[("/skipped", 0.into()), ("/errors", 0.into()), ("/unexpected_closes", 0.into())]);
    assert_eq!(number(&json, "/connected"), arrived - number(&json, "/connecting_at_end"), "{json:#}");
    assert!(number(&json, "/left") >= arrived / 2.0, "all but the arrivals of the last 100 ms: {json:#}");
    assert_eq!(json["expected_open"], 20.0);
    assert!(number(&json, "/connect_from_start_ms/p50") <= number(&json, "/connect_ms/p50"), "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_seed_gives_the_same_arrivals() {
    let server = patient_server().await;
    let first = churn(&server, "--seed 7").await;
    assert_eq!(churn(&server, "--seed 7").await["arrived"], first["arrived"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn arrivals_over_the_limit_are_skipped() {
    let json = churn(&patient_server().await, "--lifetime fixed:1h --max-open 10").await;
    assert_has(&json, &[("/connected", 10.into()), ("/peak_open", 10.into()), ("/left", 0.into())]);
    assert_eq!(number(&json, "/skipped"), number(&json, "/arrived") - 10.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_connecting_or_open_at_the_end_are_counted() {
    // The first connection stays open, the second never receives its hello, and all others are closed.
    let server = server(|index| match index {
        0 => PATIENT,
        1 => Behaviour { hello_delay: Duration::from_secs(60), ..HONEST },
        _ => CLOSES,
    })
    .await;
    let json = churn(&server, "--lifetime fixed:1h").await;
    assert!(number(&json, "/open_at_end") >= 1.0, "{json:#}");
    assert!(number(&json, "/connecting_at_end") >= 1.0, "{json:#}");
    assert!(number(&json, "/connected") >= number(&json, "/unexpected_closes") + 1.0, "{json:#}");
    assert_eq!(
        (&json["left"], &json["close_codes"]),
        (&json!(0), &json!({"4002": json["unexpected_closes"]}))
    );
}
