//! Tests of `mute`, which stops answering, and measures when the server closes the connection.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fake_server::{Behaviour, FakeServer, PONG_TIMEOUT};
use crate::run::{loadgen, number};

/// Runs 20 connections against a server.
async fn mute(server: &FakeServer, options: &str) -> Value {
    let run = format!("mute {} --connections 20 --rate 1000 --json - {options}", server.url());
    let ended = loadgen(&run).await;
    ended.assert_code(0);
    ended.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patient_server_closes_every_mute_client_and_none_early() {
    let server =
        FakeServer::start(|_| Behaviour::GiveUpAfter(PONG_TIMEOUT + Duration::from_millis(50))).await;
    let json = mute(&server, "--duration 1h").await;
    assert_eq!(json["share"], 1.0);
    assert_eq!(json["muted"], 20);
    assert_eq!(json["closed"], 20);
    assert_eq!(json["early"], 0);
    assert_eq!(json["still_open"], 0);
    assert_eq!(json["close_codes"], json!({"4000": 20}));
    assert_eq!(server.seen(|seen| seen.pongs), 0, "no pong was sent");
    let p50 = number(&json, "/lateness_ms/p50");
    assert!((30.0..5000.0).contains(&p50), "50 ms late by the server's clock: {json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_impatient_server_is_early() {
    let server = FakeServer::start(|_| Behaviour::GiveUpAfter(PONG_TIMEOUT / 2)).await;
    let json = mute(&server, "--duration 1h").await;
    assert_eq!(json["closed"], 20);
    assert_eq!(json["early"], 20);
    for name in ["p50", "p99", "max"] {
        assert_eq!(json["lateness_ms"][name], Value::Null, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_without_a_close_frame_counts_the_same() {
    let late = Duration::from_millis(300);
    let server = FakeServer::start(move |_| Behaviour::CutAfter(PONG_TIMEOUT + late)).await;
    let json = mute(&server, "--duration 1h").await;
    assert_eq!(json["closed"], 20);
    assert_eq!(json["early"], 0);
    assert_eq!(json["close_codes"], json!({"1006": 20}));
    assert!(number(&json, "/lateness_ms/p50") >= 250.0, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_share_keeps_answering() {
    let server =
        FakeServer::start(|_| Behaviour::GiveUpAfter(PONG_TIMEOUT + Duration::from_millis(50))).await;
    let json = mute(&server, "--duration 1h --share 0.25").await;
    assert_eq!(json["muted"], 5);
    assert_eq!(json["closed"], 5);
    assert_eq!(json["early"], 0);
    assert_eq!(json["unexpected_closes"], 0);
    let pongs = server.seen(|seen| seen.pongs);
    assert!(pongs >= 15, "{pongs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unresponsive_server_is_distinguished() {
    let server = FakeServer::start(|index| match index % 2 {
        0 => Behaviour::GiveUpAfter(Duration::from_secs(3600)),
        _ => Behaviour::CloseWith(4002),
    })
    .await;
    let json = mute(&server, "--duration 1500ms").await;
    assert_eq!(json["muted"], 20);
    assert_eq!(json["closed"], 0);
    assert_eq!(json["other_closes"], 10);
    assert_eq!(json["still_open"], 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_shorter_than_the_timeouts_is_refused() {
    let server = FakeServer::start(|_| Behaviour::GiveUpAfter(PONG_TIMEOUT)).await;
    for processes in [1, 2] {
        let run = format!(
            "mute {} --connections 1000 --rate 100 --duration 1s --processes {processes}",
            server.url()
        );
        let ended = loadgen(&run).await;
        ended.assert_code(2);
        let why = "the server pings every 1s and waits 400ms for the pong, so it closes a mute connection after up to \
                   1s 400ms";
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
        assert!(ended.stdout.is_empty(), "there is no result: {}", ended.stdout);
    }
    assert!(server.seen(|seen| seen.greeted) < 1000, "the first hello is enough to refuse the run");
}
