use encke_tests::bayeux::{
    BayeuxPolling, JSON, assert_refused, assert_successful, client_id, connect_now, handshake, messages,
    post, session, with_field,
};
use encke_tests::{PollClient, RunningServer};
use serde_json::{Value, json};

use super::{assert_not_logged, assert_refused_with_any_code, timing};

#[test]
fn handshake_opens_a_session_and_reports_its_timeouts() {
    let server = RunningServer::with(&["session.poll_hold=20s", "session.reconnect_window=90s"]);
    let mut requests = PollClient::connect(server.public);
    requests.send(&post(
        "/bayeux",
        JSON,
        r#"[{"id":"1","channel":"/meta/handshake","version":"1.0","minimumVersion":"1.0","supportedConnectionTypes":["websocket","long-polling","callback-polling"],"advice":{"timeout":60000,"interval":0}}]"#,
    ));
    let answer = requests.response();
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
    server.logs.await_lifecycle(&session(&id), &[("opened", "connect")]);
    assert_not_logged(&server.logs, &id);
}

/// Messages before and after the handshake are ignored, because they could only belong to another session.
#[test]
fn handshake_ignores_other_messages_in_its_request() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    let old = polls.open(&[]);
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
    for (message, why) in [
        (with_field(handshake(), "supportedConnectionTypes", json!(["iframe", "flash"])), "no known type"),
        (with_field(handshake(), "supportedConnectionTypes", json!([])), "no type"),
        (with_field(handshake(), "supportedConnectionTypes", "long-polling"), "not an array"),
        (without("supportedConnectionTypes"), "types are missing"),
        (without("version"), "the version is missing"),
        (with_field(handshake(), "version", 1), "the version is not a string"),
        (with_field(handshake(), "minimumVersion", "2.0"), "too low a version"),
    ] {
        let reply = polls.reply(&message);
        assert_eq!(
            (&reply["channel"], &reply["id"]),
            (&json!("/meta/handshake"), &json!("h")),
            "{why}: {reply}"
        );
        assert_refused_shape(&reply, why);
        assert_eq!(reply.get("clientId"), None, "{why}");
    }
    assert_eq!(server.admin.metrics().sessions("attached"), 0.0);
    client_id(&polls.reply(&handshake()));
}

/// Asserts that a handshake is refused, with any code: the specification defines none for versions and
/// connection types.
#[track_caller]
fn assert_refused_shape(reply: &Value, why: &str) {
    let error = reply["error"].as_str().unwrap_or_else(|| panic!("{why}: {reply}"));
    assert_refused(reply, error.split(':').next().expect("a code"));
}

/// Other servers accept these versions as well, because some client sends each of them.
#[test]
fn supported_versions_are_accepted() {
    let server = RunningServer::with(&[]);
    let mut polls = BayeuxPolling::connect(server.public);
    for version in ["1.0", "1.0beta", "1.1"] {
        let reply = polls.reply(&with_field(handshake(), "version", version));
        assert_successful(&reply);
        assert_eq!(reply["version"], "1.0");
    }
    for minimum in ["1.0", "0.9", "1.0beta"] {
        assert_successful(&polls.reply(&with_field(handshake(), "minimumVersion", minimum)));
    }
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
        let reply = polls.reply(&connect_now(&id));
        assert_refused(&reply, "402");
        assert_eq!(reply["advice"]["reconnect"], "handshake", "{reply}");
    }
    for not_a_string in [json!(1), json!(null), json!([one])] {
        assert_refused_with_any_code(&polls.reply(&with_field(connect_now(&one), "clientId", not_a_string)));
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
    assert_refused_shape(&reply, "overloaded");
    assert_eq!(reply["advice"]["reconnect"], "handshake", "{reply}");
    assert!(reply["advice"]["interval"].as_u64().is_some_and(|pause_ms| pause_ms > 0), "{reply}");
}
