//! `--target bayeux`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fake_bayeux::{FakeBayeux, Manners};
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

async fn run(manners: Manners, scenario: &str, options: &str) -> Value {
    run_on(&FakeBayeux::start(manners).await, scenario, options).await
}

#[tokio::test(flavor = "multi_thread")]
async fn connects_follow_one_another() {
    let server = FakeBayeux::start(Manners::Honest).await;
    let json = run_on(&server, "hold", "--duration 1s").await;
    assert_eq!((&json["unexpected_closes"], &json["errors"]), (&json!(0), &json!(0)), "{json:#}");
    assert!(number(&json, "/pings") >= 10.0, "{json:#}");
    assert_eq!(json["holds_early"], 0, "the first connect is not held: {json:#}");
    assert_eq!(
        json["hold_lateness_ms"]["count"], json["pings"],
        "the server announces the hold time: {json:#}"
    );
    assert_eq!(server.asked("/meta/handshake").len(), 5);
    let connects = server.asked("/meta/connect");
    assert_eq!(connects.iter().filter(|connect| connect["advice"]["timeout"] == 0).count(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_that_is_too_short_or_too_long_is_told() {
    let early = run(Manners::HoldsFor(Duration::from_millis(100)), "hold", "--duration 800ms").await;
    assert_eq!(early["holds_early"], early["pings"], "{early:#}");
    assert!(number(&early, "/pings") >= 5.0, "{early:#}");
    let late = run(Manners::HoldsFor(Duration::from_millis(600)), "hold", "--duration 1500ms").await;
    assert_eq!(late["holds_early"], 0, "{late:#}");
    assert!(number(&late, "/hold_lateness_ms/p50") >= 299.0, "{late:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn advice_to_pause_is_taken() {
    let server = FakeBayeux::start(Manners::AdvisesPauses(Duration::from_millis(400))).await;
    let json = run_on(&server, "hold", "--duration 1s").await;
    assert_eq!(
        (&json["holds_early"], &json["pings"]),
        (&json!(0), &json!(0)),
        "no connect was held: {json:#}"
    );
    // One at once, and one after each of two pauses.
    assert!(server.asked("/meta/connect").len() <= 15, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_arrived_is_acknowledged() {
    let server = FakeBayeux::start(Manners::Honest).await;
    let json = run_on(&server, "storm", "--ext-ack --duration 500ms").await;
    assert_eq!((&json["resumed"], &json["errors"]), (&json!(5), &json!(0)), "{json:#}");
    let connects = server.asked("/meta/connect");
    let acks = |first: bool| {
        let of_kind = connects.iter().filter(move |connect| (connect["advice"]["timeout"] == 0) == first);
        of_kind
            .map(|connect| connect["ext"]["ack"].as_i64().expect("each connect acknowledges"))
            .collect::<Vec<_>>()
    };
    assert_eq!(acks(true).iter().filter(|ack| **ack == -1).count(), 5, "{connects:?}");
    assert_eq!(acks(true).iter().filter(|ack| **ack > -1).count(), 5, "reconnecting clients: {connects:?}");
    assert!(acks(false).iter().all(|ack| *ack >= 0), "{connects:?}");
    let url = FakeBayeux::start(Manners::Plain).await.url();
    let held = "--connections 3 --rate 1000 --duration 0s --json -";
    let ended = loadgen(&format!("hold {url} --target bayeux --ext-ack {held}")).await;
    ended.assert_code(1);
    assert_eq!(ended.json()["error_kinds"], json!({"unwelcome": 3}), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_known_any_more_begins_anew() {
    let server = FakeBayeux::start(Manners::Forgets).await;
    let json = run_on(&server, "storm", "--duration 300ms").await;
    assert_eq!((&json["dropped"], &json["resumed"]), (&json!(5), &json!(0)), "{json:#}");
    assert_eq!(json["error_kinds"], json!({"not_recovered": 5}), "{json:#}");
    assert_eq!(server.asked("/meta/handshake").len(), 10, "all clients have started new sessions");
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_have_the_numbers_of_errors() {
    for (error, code) in [("402:c:unknown", "402"), ("503::come back", "503"), ("no", "1005")] {
        // The run ends when no connection is left.
        let json = run(Manners::Ends(error), "hold", "--duration 1h").await;
        assert_eq!(json["unexpected_closes"], 5, "{json:#}");
        assert_eq!(json["close_codes"], json!({code: 5}), "{json:#}");
    }
    let url = FakeBayeux::start(Manners::Refuses).await.url();
    let held = "--connections 3 --rate 1000 --duration 0s --json -";
    let ended = loadgen(&format!("hold {url} --target bayeux {held}")).await;
    ended.assert_code(1);
    assert_eq!(ended.json()["error_kinds"], json!({"unwelcome": 3}), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_bayeux_cannot_do_is_said_before_the_run() {
    let held = "--connections 20 --rate 1 --duration 1s";
    for (words, part) in [
        (format!("mute http://127.0.0.1:1/bayeux {held} --target bayeux"), "pings that require an answer"),
        (format!("takeover http://127.0.0.1:1/bayeux {held} --target bayeux"), "sessions that are alive"),
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
