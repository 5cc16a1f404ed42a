use encke_tests::bayeux::{
    BayeuxPolling, JSON, assert_refused, assert_successful, client_id, connect_now, handshake, messages,
    post, publish, session, subscribe, with_field,
};
use encke_tests::{PollClient, RunningServer};
use serde_json::json;

use super::{assert_not_logged, timing};

#[test]
fn handshake_opens_a_session_and_reports_its_timeouts() {
    let server = RunningServer::with(&["session.poll_hold=20s", "session.reconnect_window=90s"]);
    let answer = PollClient::connect(server.public).exchange(post(
        "/bayeux",
        JSON,
        r#"[{"id":"1","channel":"/meta/handshake","version":"1.0","minimumVersion":"1.0","supportedConnectionTypes":["websocket","long-polling","callback-polling"],"advice":{"timeout":60000,"interval":0}}]"#,
    ));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    let replies = messages(&answer);
    let [reply] = &replies[..] else { panic!("one reply: {replies:?}") };
    let id = client_id(reply);
    assert_eq!((&reply["id"], &reply["version"]), (&json!("1"), &json!("1.0")));
    let types = reply["supportedConnectionTypes"].as_array().expect("an array");
    assert!(types.contains(&json!("long-polling")) && types.contains(&json!("websocket")), "{types:?}");
    assert!(!types.contains(&json!("callback-polling")), "callback-polling is off: {types:?}");
    assert_eq!(reply["advice"]["reconnect"], "retry");
    assert_eq!(timing(&reply["advice"]), json!([20_000, 0, 90_000]));
    assert_eq!(reply.get("ext").and_then(|ext| ext.get("ack")), None, "the client did not ask for it");
    let shown = server.admin.session(&session(&id));
    assert_eq!((&shown["phase"], &shown["dialect"]), (&json!("attached"), &json!("bayeux")));
    server.await_lifecycle(&session(&id), "opened connect");
    assert_not_logged(&server.logs, &id);
}

/// Messages before and after the handshake are ignored, because they could only belong to another session.
#[test]
fn handshake_ignores_other_messages_in_its_request() {
    let server = RunningServer::with(&[]);
    let (mut polls, old) = BayeuxPolling::opened(server.public, &[]);
    let others = [
        json!({"id": "2", "channel": "/x", "clientId": old, "data": 1}),
        json!({"id": "3", "channel": "/meta/subscribe", "clientId": old, "subscription": "/x"}),
    ];
    for messages in
        [json!([handshake(), others[0], others[1]]), json!([others[0], handshake(), connect_now(&old)])]
    {
        let id = client_id(&polls.reply(&messages));
        assert_ne!(id, old);
        assert_eq!(super::subscribed_channels(&server, &id), [] as [&str; 0]);
    }
    assert_eq!(server.admin.get("/api/channels/%2Fx").status, 404, "nothing was published");
}

#[test]
fn invalid_handshakes_are_refused() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let without = |field: &str| {
        let mut message = handshake();
        message.as_object_mut().expect("an object").remove(field);
        message
    };
    for (message, code) in [
        (with_field(handshake(), "supportedConnectionTypes", json!(["iframe", "flash"])), "301"),
        (with_field(handshake(), "supportedConnectionTypes", json!([])), "301"),
        (without("version"), "400"),
        (with_field(handshake(), "minimumVersion", "2.0"), "400"),
    ] {
        let reply = polls.reply(&message);
        assert_eq!([&reply["channel"], &reply["id"]], ["/meta/handshake", "h"], "{reply}");
        assert_refused(&reply, code);
        assert_eq!(reply.get("clientId"), None, "{reply}");
    }
    assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
    client_id(&polls.reply(&handshake()));
}

/// Each client has its own session, which another client's id does not open.
#[test]
fn a_client_id_is_a_secret() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let (one, two) = (polls.open(&[]), polls.open(&[]));
    assert_ne!(one, two);
    let (_, secret) = two.split_once('.').expect("a client id has a secret");
    let mixed = format!("{}.{secret}", session(&one));
    for id in
        [session(&one), mixed, format!("{one}x"), one[..one.len() - 1].to_owned(), "x".into(), String::new()]
    {
        for message in [connect_now(&id), subscribe(&id, "/x"), publish(&id, "/x", 1)] {
            let reply = polls.reply(&message);
            assert_refused(&reply, "402");
            assert_eq!([&reply["channel"], &reply["id"]], [&message["channel"], &message["id"]]);
            assert_eq!(reply["advice"]["reconnect"], "handshake", "{reply}");
        }
    }
    assert_successful(&polls.reply(&connect_now(&one)));
}

/// The server has reached its session limit. The client is advised when to retry, in a reply that every
/// client understands.
#[test]
fn overload_is_reported_with_a_pause() {
    let server = RunningServer::with(&["limits.max_sessions=1"]);
    let mut polls = BayeuxPolling::connect(server.public);
    let _held = server.client();
    let reply = polls.reply(&handshake());
    assert_refused(&reply, "503");
    assert_eq!(reply["advice"]["reconnect"], "handshake", "{reply}");
    assert!(reply["advice"]["interval"].as_u64().is_some_and(|pause_ms| pause_ms > 0), "{reply}");
}
