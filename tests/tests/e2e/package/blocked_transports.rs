//! Proxies that block some transports.

use encke_tests::{RunningServer, Script};
use serde_json::{Value, json};

use super::middlebox::{Middlebox, Upgrades};
use super::{assert_news, await_open, await_subscribed, session_id, start};

/// Starts a client that tries every transport and subscribes to `news`.
fn start_and_subscribe(place: &str, server: &RunningServer, middlebox: &Middlebox) -> Script {
    // This is long enough for a working transport on a busy machine.
    let options = json!({"channels": ["news"], "hello_ms": 4_000, "ws": true});
    let client = start(place, server, middlebox.address, &options);
    await_subscribed(&client, &["news"]);
    client
}

/// Returns the transport changes that the client has reported.
fn fallbacks(client: &Script) -> Vec<(Value, Value)> {
    client
        .values("fallback")
        .into_iter()
        .map(|change| (change["from"].clone(), change["to"].clone()))
        .collect()
}

/// Asserts that a client behind this middlebox falls back from WebSocket to `transport`, and works.
#[track_caller]
fn assert_falls_back(upgrades: Upgrades, buffers: bool, place: &str, transport: &str) {
    let server = RunningServer::with(&[]);
    let middlebox = Middlebox::new(server.public, upgrades, buffers);
    let mut client = start_and_subscribe(place, &server, &middlebox);
    assert_eq!(await_open(&client, 1)["transport"], transport, "{upgrades:?}, {place}");
    assert_eq!(fallbacks(&client), [(json!("websocket"), json!(transport))]);
    server.admin.publish_each("news", 1..=3);
    client.send_command(&json!({"ask": ["publish", "news", 4]}));
    assert_news(&client, 4);
    assert_eq!(client.await_value("answer", 1)["offset"], 4);
}

#[test]
fn blocked_upgrades_fall_back_to_events() {
    let refuses = Upgrades::Answer("400 Bad Request");
    for (upgrades, place) in [
        (refuses, "node"),
        (refuses, "page"),
        (Upgrades::Answer("200 OK"), "page"),
        (Upgrades::Strip, "node"),
        (Upgrades::Swallow, "page"),
    ] {
        assert_falls_back(upgrades, false, place, "events");
    }
}

#[test]
fn buffered_streams_fall_back_to_polls() {
    for place in ["node", "page"] {
        assert_falls_back(Upgrades::Strip, true, place, "poll");
        assert_falls_back(Upgrades::Swallow, true, place, "poll");
    }
}

/// A client reconnects with the transport that worked last. After a network change it tries WebSocket again.
#[test]
fn the_working_transport_is_tried_first_until_the_network_changes() {
    let server = RunningServer::with(&[]);
    let middlebox = Middlebox::new(server.public, Upgrades::Strip, false);
    let mut client = start_and_subscribe("page", &server, &middlebox);
    let hello = client.await_value("hello", 1);
    let disconnect = || assert_eq!(server.admin.disconnect(session_id(&hello)).status, 204);
    disconnect();
    assert_eq!(await_open(&client, 2)["transport"], "events");
    assert_eq!(client.count("socket"), 1, "one attempt at a WebSocket");
    middlebox.pass_upgrades();
    client.send_command(&json!({"fire": "online"}));
    client.await_object("done", 1);
    disconnect();
    assert_eq!(await_open(&client, 3)["transport"], "websocket");
    assert_eq!(fallbacks(&client)[1], (json!("events"), json!("websocket")));
    server.admin.publish_each("news", 1..=3);
    assert_news(&client, 3);
}
