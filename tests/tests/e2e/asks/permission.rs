use std::time::Duration;

use encke_tests::bayeux::{BayeuxPolling, subscribe};
use encke_tests::waiting::until;
use encke_tests::{Backend, EventStream, BackendReply};
use serde_json::json;

use super::{alice, asking, error_code, reply};

#[test]
fn the_backend_allows_refuses_and_rewrites_what_is_published() {
    let backend = Backend::start();
    backend.reply_with(|asked| match asked.json()["data"].as_str() {
        Some("bad word") => BackendReply::json(json!({"error": {"code": "moderated", "message": "not here"}})),
        Some("secret") => BackendReply::json(json!({"data": {"hidden": true}})),
        Some("elsewhere") => BackendReply::json(json!({"channel": "archive"})),
        Some("nowhere") => BackendReply::json(json!({"channel": "$session"})),
        _ => BackendReply::status(200),
    });
    let server = asking(&backend, &["publish"]).start();
    let mut client = alice(&server);
    client.subscribe("news");
    client.subscribe("archive");
    let publish = |data: &str| json!({"id": 1, "publish": {"channel": "news", "data": data}});
    assert_eq!(error_code(&reply(&mut client, &publish("bad word"))), "moderated");
    assert_eq!(
        error_code(&reply(&mut client, &publish("nowhere"))),
        "unavailable",
        "it is not the client's fault"
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
    let question =
        json!({"session": client.hello.session, "user": "alice", "channel": "news", "data": "bad word"});
    assert_eq!(backend.requests()[0].json(), question);
    // The API is the backend's own.
    server.admin.publish("news", "bad word");
    assert_eq!(backend.requests().len(), 5);
}

#[test]
fn what_one_client_publishes_keeps_its_order_while_the_backend_answers_in_another() {
    const MESSAGES: usize = 12;
    let backend = Backend::start();
    backend.reply_with(|asked| {
        let number = asked.json()["data"].as_u64().unwrap_or_default();
        BackendReply::status(200).delayed_by(Duration::from_millis(10 * (number % 4) * 5))
    });
    let server = asking(&backend, &["publish"]).start();
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
fn the_backend_allows_and_refuses_who_follows() {
    let backend = Backend::start();
    backend.reply_with(|asked| match asked.json()["channel"].as_str() {
        Some("private") => BackendReply::status(403),
        Some("me") => BackendReply::json(json!({"channel": "user.alice"})),
        _ => BackendReply::json("{}"),
    });
    let server = asking(&backend, &["subscribe"]).start();
    let mut client = alice(&server);
    let subscribe = |channel: &str| json!({"id": 1, "subscribe": {"channel": channel}});
    assert_eq!(error_code(&reply(&mut client, &subscribe("private"))), "forbidden");
    assert_eq!(reply(&mut client, &subscribe("news"))["ok"]["channel"], "news");
    assert_eq!(reply(&mut client, &subscribe("me"))["ok"]["channel"], "user.alice");
    let asked = backend.requests().len();
    assert_eq!(reply(&mut client, &subscribe("news"))["ok"]["channel"], "news");
    assert_eq!(backend.requests().len(), asked, "it follows that already");
    server.admin.publish("user.alice", 1);
    assert_eq!(client.object()["message"]["channel"], "user.alice");
    let question = json!({"session": client.hello.session, "user": "alice", "channel": "private"});
    assert_eq!(backend.requests()[0].json(), question);
}

#[test]
fn channels_of_a_url_are_asked_for_too() {
    let backend = Backend::start();
    backend.reply_with(|asked| BackendReply::status(if asked.json()["channel"] == "private" { 403 } else { 200 }));
    // Without tokens.
    let server =
        encke_tests::Launch::with(&[&format!("backend.subscribe={}", backend.url("/subscribe"))]).start();
    let mut stream = EventStream::open(server.public, "channels=news,private");
    stream.hello();
    assert_eq!(stream.object().1["unsubscribed"], json!({"channel": "private", "reason": "forbidden"}));
    server.admin.publish("private", 1);
    server.admin.publish("news", 2);
    assert_eq!(stream.object().1["message"]["data"], 2);
    assert!(backend.requests().iter().all(|asked| asked.json().get("user").is_none()));
}

/// While the backend is asked, the session may be taken over or end: nothing is left of the subscription.
#[test]
fn a_client_that_leaves_before_the_answer_follows_nothing() {
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::status(200).delayed_by(Duration::from_millis(500)));
    let server = asking(&backend, &["subscribe"]).start();
    let mut client = alice(&server);
    client.send(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    until("it is asked", || backend.requests().len() == 1);
    let session = client.hello.session.clone();
    assert_eq!(server.admin.kick(&session).status, 204);
    assert_eq!(client.close_code(), Some(4101));
    until("the question is over", || server.admin.metrics().value("encke_backend_in_flight") == 0.0);
    assert_eq!(server.admin.get("/api/channels/news").status, 404);
}

#[test]
fn a_backend_that_fails_is_a_closed_door() {
    let backend = Backend::start();
    backend.reply_with_status(500);
    let server = asking(&backend, &["subscribe", "publish"]).start();
    let mut client = alice(&server);
    let answer = reply(&mut client, &json!({"id": 1, "subscribe": {"channel": "news"}}));
    assert_eq!(error_code(&answer), "unavailable");
    let answer = reply(&mut client, &json!({"id": 1, "publish": {"channel": "news", "data": 1}}));
    assert_eq!(error_code(&answer), "unavailable");
    assert_eq!(server.admin.get("/api/channels/news").status, 404, "nothing was published");
}

/// A reply to `/meta/subscribe` cannot name another channel: so there is none in its place.
#[test]
fn a_client_of_bayeux_gets_no_other_channel() {
    let backend = Backend::start();
    backend.reply_with(|asked| match asked.json()["channel"].as_str() {
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
    let followed: Vec<_> =
        session["subscriptions"].as_array().expect("a list").iter().map(|it| &it["channel"]).collect();
    assert_eq!(followed, ["/news"], "all or none");
}
