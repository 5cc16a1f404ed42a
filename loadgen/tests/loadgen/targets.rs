//! Servers that are not Encke.

use serde_json::{Value, json};

use crate::fake_targets::{FakeTarget, Kind};
use crate::run::{Ended, loadgen, number};

async fn run(scenario: &str, target: &str, server: &FakeTarget, options: &str) -> Value {
    let scheme = if target == "sse" { "http" } else { "ws" };
    let ended = loadgen(&format!(
        "{scenario} {scheme}://{}/path --target {target} --connections 5 --rate 1000 --json - {options}",
        server.address
    ))
    .await;
    ended.assert_code(0);
    let json = ended.json();
    assert_eq!(json["connected"], 5, "{}", ended.stderr);
    assert_eq!(json["dialect"], target);
    json
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_servers_are_held_and_pinged() {
    let server = FakeTarget::start(Kind::Plain).await;
    let json = run("hold", "plain", &server, "--duration 800ms --ping-every 100ms").await;
    assert_eq!(json["unexpected_closes"], 0, "{json:#}");
    assert!(number(&json, "/pings") >= 10.0, "{json:#}");
    assert!(number(&json, "/pong_ms/p50") > 0.0, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_servers_notice_who_is_mute() {
    let server = FakeTarget::start(Kind::Plain).await;
    let json = run("mute", "plain", &server, "--duration 5s --pong-timeout 300ms").await;
    // They have a code of their own for it, or none.
    assert_eq!((&json["closed"], &json["early"]), (&json!(5), &json!(0)), "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn socketio_is_held_and_its_pings_are_answered() {
    let server = FakeTarget::start(Kind::Socketio).await;
    let json = run("hold", "socketio", &server, "--duration 800ms").await;
    assert_eq!(json["unexpected_closes"], 0, "{json:#}");
    assert!(number(&json, "/pings") >= 10.0, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn socketio_notices_who_is_mute_or_late() {
    let server = FakeTarget::start(Kind::Socketio).await;
    let json = run("mute", "socketio", &server, "--duration 5s").await;
    assert_eq!((&json["closed"], &json["early"]), (&json!(5), &json!(0)), "{json:#}");
    assert_eq!(json["close_codes"], json!({"1005": 5}));
    let json = run("late", "socketio", &server, "--duration 1500ms --margin 100ms").await;
    assert_eq!(json["closed_in_time"], 0, "{json:#}");
    assert_eq!(json["forgiven"], 0, "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn socketio_connections_are_recovered() {
    let server = FakeTarget::start(Kind::Socketio).await;
    let json = run("storm", "socketio", &server, "--duration 500ms").await;
    assert_eq!(json["resumed"], 5, "{json:#}");
    let asked = server.asked();
    assert!(asked[..5].iter().all(String::is_empty), "{asked:?}");
    for connect in &asked[5..] {
        assert!(connect.contains(r#""offset":"offset1""#), "{connect}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_are_held() {
    let server = FakeTarget::start(Kind::Sse).await;
    let json = run("hold", "sse", &server, "--duration 300ms").await;
    assert_eq!(json["unexpected_closes"], 0, "{json:#}");
    assert!(server.asked()[0].contains("Accept: text/event-stream\r\n"), "{:?}", server.asked());
    let server = FakeTarget::start(Kind::SseThatEnds).await;
    let json = run("hold", "sse", &server, "--duration 1h").await;
    assert_eq!(json["close_codes"], json!({"1005": 5}), "an end that was said");
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_go_on_after_the_last_id() {
    let server = FakeTarget::start(Kind::Sse).await;
    let json = run("storm", "sse", &server, "--duration 500ms").await;
    assert_eq!(json["resumed"], 5, "{json:#}");
    let asked = server.asked();
    assert!(asked[..5].iter().all(|head| !head.contains("Last-Event-ID")), "{asked:?}");
    assert!(asked[5..].iter().all(|head| head.contains("Last-Event-ID: 2\r\n")), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_gone_is_an_error() {
    let server = FakeTarget::start(Kind::SseGone).await;
    let ended = loadgen(&format!(
        "hold http://{}/ --target sse --connections 3 --rate 1000 --duration 0s --json -",
        server.address
    ))
    .await;
    ended.assert_code(1);
    assert_eq!(ended.json()["error_kinds"], json!({"http_204": 3}));
}

async fn refused(words: &str) -> Ended {
    let ended = loadgen(words).await;
    ended.assert_code(2);
    ended
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_target_cannot_do_is_said_before_the_run() {
    let held = "--connections 2 --rate 1 --duration 1s";
    for (words, parts) in [
        ("fanout ws://127.0.0.1:1/ --target plain".to_owned(), ["fanout", "channels", "plain"]),
        (format!("mute http://127.0.0.1:1/ --target sse {held}"), ["mute", "pings", "sse"]),
        (format!("mute ws://127.0.0.1:1/ --target plain {held}"), ["mute", "--pong-timeout", "plain"]),
        (
            format!("vanish ws://127.0.0.1:1/ --target socketio {held}"),
            ["vanish", "--reconnect-window", "socketio"],
        ),
        (format!("takeover http://127.0.0.1:1/ --target sse {held}"), ["takeover", "recovered", "sse"]),
        (
            format!("hold http://127.0.0.1:1/ --target sse {held} --ping-every 1s"),
            ["hold", "answers to pings", "sse"],
        ),
        (format!("hold ws://127.0.0.1:1/ --target sse {held}"), ["http://", "sse", "ws://"]),
        (format!("hold http://127.0.0.1:1/ {held}"), ["ws://", "encke", "http://"]),
    ] {
        let ended = refused(&words).await;
        for part in parts {
            assert!(ended.stderr.contains(part), "{part} for {words} in {}", ended.stderr);
        }
    }
}
