use std::time::Duration;

use encke_tests::bayeux::{BayeuxPolling, subscribe};
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, EventStream};
use serde_json::json;

use super::{alice, error_code, launch_with_hooks, reply};

#[test]
fn backend_allows_refuses_and_rewrites_publishes() {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["data"].as_str() {
        Some("bad word") => {
            BackendReply::json(json!({"error": {"code": "moderated", "message": "not here"}}))
        }
        Some("secret") => BackendReply::json(json!({"data": {"hidden": true}})),
        Some("elsewhere") => BackendReply::json(json!({"channel": "archive"})),
        Some("nowhere") => BackendReply::json(json!({"channel": "$session"})),
        _ => BackendReply::status(200),
    });
    let server = launch_with_hooks(&backend, &["publish"]).start();
    let mut client = alice(&server);
    client.subscribe("news");
    client.subscribe("archive");
    let publish = |data: &str| json!({"id": 1, "publish": {"channel": "news", "data": data}});
    assert_eq!(error_code(&reply(&mut client, &publish("bad word"))), "moderated");
    assert_eq!(
        error_code(&reply(&mut client, &publish("nowhere"))),
        "unavailable",
        "the client is not at fault"
    );
    for (data, channel, published) in [
        ("good", "news", json!("good")),
        ("secret", "news", json!({"hidden": true})),
        ("elsewhere", "archive", json!("elsewhere")),
    ] {
        let answer = reply(&mut client, &publish(data));
        let message = client.object()["message"].clone();
        assert_eq!((&message["channel"], &message["data"]), (&json!(channel), &published));
        assert_eq!(message["offset"], answer["ok"]["offset"]);
    }
    let expected =
        json!({"session": client.hello.session, "user": "alice", "channel": "news", "data": "bad word"});
    assert_eq!(backend.requests()[0].json(), expected);
    // The API belongs to the backend, so its publishes are not authorised.
    server.admin.publish("news", "bad word");
    assert_eq!(backend.requests().len(), 5);
}

#[test]
fn publishes_keep_their_order_whatever_the_order_of_the_answers() {
    const MESSAGES: usize = 12;
    let backend = Backend::start();
    backend.reply_with(|request| {
        let number = request.json()["data"].as_u64().unwrap_or_default();
        BackendReply::status(200).delayed_by(Duration::from_millis(10 * (number % 4) * 5))
    });
    let server = launch_with_hooks(&backend, &["publish"]).start();
    let mut client = alice(&server);
    client.subscribe("news");
    for number in 0..MESSAGES {
        client.send(&json!({"publish": {"channel": "news", "data": number}}).to_string());
    }
    for number in 0..MESSAGES {
        assert_eq!(client.object()["message"]["data"], number);
    }
}

#[test]
fn backend_allows_refuses_and_rewrites_subscriptions() {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["channel"].as_str() {
        Some("private") => BackendReply::status(403),
        Some("me") => BackendReply::json(json!({"channel": "user.alice"})),
        _ => BackendReply::json("{}"),
    });
    let server = launch_with_hooks(&backend, &["subscribe"]).start();
    let mut client = alice(&server);
    let subscribe = |channel: &str| json!({"id": 1, "subscribe": {"channel": channel}});
    assert_eq!(error_code(&reply(&mut client, &subscribe("private"))), "forbidden");
    assert_eq!(reply(&mut client, &subscribe("news"))["ok"]["channel"], "news");
    assert_eq!(reply(&mut client, &subscribe("me"))["ok"]["channel"], "user.alice");
    let before = backend.requests().len();
    assert_eq!(reply(&mut client, &subscribe("news"))["ok"]["channel"], "news");
    assert_eq!(backend.requests().len(), before, "the session is already subscribed");
    server.admin.publish("user.alice", 1);
    assert_eq!(client.object()["message"]["channel"], "user.alice");
    let expected = json!({"session": client.hello.session, "user": "alice", "channel": "private"});
    assert_eq!(backend.requests()[0].json(), expected);
}

#[test]
fn channels_of_a_url_are_authorised_too() {
    let backend = Backend::start();
    backend.reply_with(|request| {
        BackendReply::status(if request.json()["channel"] == "private" { 403 } else { 200 })
    });
    // Without tokens, hook requests name no user.
    let server =
        encke_tests::Launch::with(&[&format!("backend.subscribe={}", backend.url("/subscribe"))]).start();
    let mut stream = EventStream::open(server.public, "channels=news,private");
    stream.hello();
    assert_eq!(stream.object().1["unsubscribed"], json!({"channel": "private", "reason": "forbidden"}));
    server.admin.publish("private", 1);
    server.admin.publish("news", 2);
    assert_eq!(stream.object().1["message"]["data"], 2);
    assert!(backend.requests().iter().all(|request| request.json().get("user").is_none()));
}

/// The session may be taken over or closed while the backend is called. No subscription may remain in that
/// case.
#[test]
fn client_that_leaves_before_the_answer_has_no_subscription() {
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_millis(500)));
    let server = launch_with_hooks(&backend, &["subscribe"]).start();
    let mut client = alice(&server);
    client.send(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    until("the backend is called", || backend.requests().len() == 1);
    let session = client.hello.session.clone();
    assert_eq!(server.admin.kick(&session).status, 204);
    assert_eq!(client.close_code(), Some(4101));
    until("the request has ended", || server.admin.metrics().value("encke_backend_in_flight") == 0.0);
    assert_eq!(server.admin.get("/api/channels/news").status, 404);
}

#[test]
fn failing_backend_denies_access() {
    let backend = Backend::start();
    backend.reply_with_status(500);
    let server = launch_with_hooks(&backend, &["subscribe", "publish"]).start();
    let mut client = alice(&server);
    let answer = reply(&mut client, &json!({"id": 1, "subscribe": {"channel": "news"}}));
    assert_eq!(error_code(&answer), "unavailable");
    let answer = reply(&mut client, &json!({"id": 1, "publish": {"channel": "news", "data": 1}}));
    assert_eq!(error_code(&answer), "unavailable");
    assert_eq!(server.admin.get("/api/channels/news").status, 404, "nothing was published");
}

/// A reply to `/meta/subscribe` cannot name a different channel, so the subscription is refused if the
/// backend names one.
#[test]
fn bayeux_client_is_not_subscribed_to_another_channel() {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["channel"].as_str() {
        Some("/other") => BackendReply::json(json!({"channel": "/in/its/place"})),
        _ => BackendReply::status(200),
    });
    let server =
        encke_tests::Launch::with(&[&format!("backend.subscribe={}", backend.url("/subscribe"))]).start();
    let mut polls = BayeuxPolling::connect(server.public);
    let id = polls.open(&["/news"]);
    let reply = polls.reply(&subscribe(&id, json!(["/more", "/other"])));
    assert!(reply["error"].as_str().is_some_and(|error| error.starts_with("403:")), "{reply}");
    let session = server.admin.session(&encke_tests::stock::session_of(&id));
    let subscribed: Vec<_> =
        session["subscriptions"].as_array().expect("a list").iter().map(|it| &it["channel"]).collect();
    assert_eq!(subscribed, ["/news"], "all channels or none");
}
