//! Tests of `--target bayeux`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fake_bayeux::{BayeuxBehaviour, FakeBayeux};
use crate::run::{loadgen, number};

async fn run_on(server: &FakeBayeux, scenario: &str, options: &str) -> Value {
    let url = server.url();
    let words = format!("{scenario} {url} --target bayeux --connections 5 --rate 1000 --json - {options}");
    let ended = loadgen(&words).await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!((&json["connected"], &json["target"]), (&json!(5), &json!("bayeux")), "{}", ended.stderr);
    json
}

async fn run(behaviour: BayeuxBehaviour, scenario: &str, options: &str) -> Value {
    run_on(&FakeBayeux::start(behaviour).await, scenario, options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn connects_follow_one_another() {
    let server = FakeBayeux::start(BayeuxBehaviour::Honest).await;
    let json = run_on(&server, "hold", "--duration 1s").await;
    assert_eq!((&json["unexpected_closes"], &json["errors"]), (&json!(0), &json!(0)), "{json:#}");
    assert!(number(&json, "/pings") >= 10.0, "{json:#}");
    assert_eq!(json["holds_early"], 0, "the first connect is not held: {json:#}");
    assert_eq!(
        json["hold_lateness_ms"]["count"], json["pings"],
        "the server announces the hold time: {json:#}"
    );
    assert_eq!(server.requests("/meta/handshake").len(), 5);
    let connects = server.requests("/meta/connect");
    assert_eq!(connects.iter().filter(|connect| connect["advice"]["timeout"] == 0).count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_that_are_too_short_or_too_long_are_reported() {
    let early = run(BayeuxBehaviour::HoldsFor(Duration::from_millis(100)), "hold", "--duration 800ms").await;
    assert_eq!(early["holds_early"], early["pings"], "{early:#}");
    assert!(number(&early, "/pings") >= 5.0, "{early:#}");
    let late = run(BayeuxBehaviour::HoldsFor(Duration::from_millis(600)), "hold", "--duration 1500ms").await;
    assert_eq!(late["holds_early"], 0, "{late:#}");
    assert!(number(&late, "/hold_lateness_ms/p50") >= 299.0, "{late:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn advised_pauses_are_kept() {
    let server = FakeBayeux::start(BayeuxBehaviour::AdvisesPause(Duration::from_millis(400))).await;
    let json = run_on(&server, "hold", "--duration 1s").await;
    assert_eq!(
        (&json["holds_early"], &json["pings"]),
        (&json!(0), &json!(0)),
        "no connect was held: {json:#}"
    );
    // Each client sends one connect immediately, and one after each of two pauses.
    assert!(server.requests("/meta/connect").len() <= 15, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn received_messages_are_acknowledged() {
    let server = FakeBayeux::start(BayeuxBehaviour::Honest).await;
    let json = run_on(&server, "storm", "--ext-ack --duration 500ms").await;
    assert_eq!((&json["resumed"], &json["errors"]), (&json!(5), &json!(0)), "{json:#}");
    let connects = server.requests("/meta/connect");
    let acks = |first: bool| {
        let of_kind = connects.iter().filter(move |connect| (connect["advice"]["timeout"] == 0) == first);
        of_kind
            .map(|connect| connect["ext"]["ack"].as_i64().expect("each connect acknowledges"))
            .collect::<Vec<_>>()
    };
    assert_eq!(acks(true).iter().filter(|ack| **ack == -1).count(), 5, "{connects:?}");
    assert_eq!(acks(true).iter().filter(|ack| **ack > -1).count(), 5, "reconnecting clients: {connects:?}");
    assert!(acks(false).iter().all(|ack| *ack >= 0), "{connects:?}");
    let url = FakeBayeux::start(BayeuxBehaviour::NoExtensions).await.url();
    let held = "--connections 3 --rate 1000 --duration 0s --json -";
    let ended = loadgen(&format!("hold {url} --target bayeux --ext-ack {held}")).await;
    ended.assert_code(1);
    assert_eq!(ended.json()["error_kinds"], json!({"unwelcome": 3}), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_client_handshakes_again() {
    let server = FakeBayeux::start(BayeuxBehaviour::Forgets).await;
    let json = run_on(&server, "storm", "--duration 300ms").await;
    assert_eq!((&json["dropped"], &json["resumed"]), (&json!(5), &json!(0)), "{json:#}");
    assert_eq!(json["error_kinds"], json!({"not_recovered": 5}), "{json:#}");
    assert_eq!(server.requests("/meta/handshake").len(), 10, "all clients have started new sessions");
}

#[tokio::test(flavor = "multi_thread")]
async fn error_numbers_are_close_codes() {
    for (error, code) in [("402:c:unknown", "402"), ("503::come back", "503"), ("no", "1005")] {
        // The run ends when no connection is left.
        let json = run(BayeuxBehaviour::EndsSession(error), "hold", "--duration 1h").await;
        assert_eq!(json["unexpected_closes"], 5, "{json:#}");
        assert_eq!(json["close_codes"], json!({code: 5}), "{json:#}");
    }
    let url = FakeBayeux::start(BayeuxBehaviour::Refuses).await.url();
    let held = "--connections 3 --rate 1000 --duration 0s --json -";
    let ended = loadgen(&format!("hold {url} --target bayeux {held}")).await;
    ended.assert_code(1);
    assert_eq!(ended.json()["error_kinds"], json!({"unwelcome": 3}), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_options_are_refused_before_the_run() {
    let held = "--connections 20 --rate 1 --duration 1s";
    for (words, part) in [
        (format!("mute http://127.0.0.1:1/bayeux {held} --target bayeux"), "pings that require an answer"),
        (format!("takeover http://127.0.0.1:1/bayeux {held} --target bayeux"), "taking over live sessions"),
        (format!("vanish http://127.0.0.1:1/bayeux {held} --target bayeux"), "(or --reconnect-window)"),
        ("slow http://127.0.0.1:1/bayeux --target bayeux".to_owned(), "messages that are pushed"),
        (
            format!("hold http://127.0.0.1:1/poll {held} --target poll --ext-ack"),
            "--ext-ack requires --target bayeux",
        ),
    ] {
        let ended = loadgen(&words).await;
        ended.assert_code(2);
        assert!(ended.stderr.contains(part), "{part} for {words} in {}", ended.stderr);
    }
}
