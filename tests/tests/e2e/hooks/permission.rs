use std::time::Duration;

use encke_tests::bayeux::{BayeuxPolling, subscribe};
use encke_tests::tokens::token;
use encke_tests::waiting::until;
use encke_tests::{Backend, BackendReply, Client, EventStream};
use serde_json::json;

use super::{error, launch_with_hooks, launch_without_keys, reply};

/// A backend that fails denies access.
#[test]
fn backend_allows_refuses_and_rewrites_publishes() {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["data"].as_str() {
        Some("bad word") => BackendReply::json(error("moderated", "not here")),
        Some("secret") => BackendReply::json(json!({"allow": true, "data": {"hidden": true}})),
        Some("elsewhere") => BackendReply::json(json!({"allow": true, "channel": "archive"})),
        Some("nowhere") => BackendReply::json(json!({"allow": true, "channel": "$session"})),
        Some("failing") => BackendReply::status(500),
        _ => BackendReply::approval_of(request),
    });
    let server = launch_with_hooks(&backend, &["publish"]).start();
    let mut client = server.client_of("alice");
    client.subscribe("news");
    client.subscribe("archive");
    let publish = |data: &str| json!({"id": 1, "publish": {"channel": "news", "data": data}});
    for (data, code) in [("bad word", "moderated"), ("nowhere", "backend_error"), ("failing", "unavailable")]
    {
        client.assert_refused(publish(data), code);
    }
    for (data, channel, published) in [
        ("good", "news", json!("good")),
        ("secret", "news", json!({"hidden": true})),
        ("elsewhere", "archive", json!("elsewhere")),
    ] {
        let answer = reply(&mut client, &publish(data));
        let message = client.object()["message"].take();
        assert_eq!((&message["channel"], &message["data"]), (&json!(channel), &published));
        assert_eq!(message["offset"], answer["ok"]["offset"]);
    }
    let expected =
        json!({"session": client.hello.session, "user": "alice", "channel": "news", "data": "bad word"});
    assert_eq!(backend.requests()[0].json(), expected);
    // The API belongs to the backend, so its publishes are not authorised.
    server.admin.publish("news", "bad word");
    assert_eq!(backend.requests().len(), 6);
}

#[test]
fn publishes_keep_their_order_whatever_the_order_of_the_answers() {
    let backend = Backend::start();
    backend.reply_with(|request| {
        let number = request.json()["data"].as_u64().unwrap_or_default();
        BackendReply::approval_of(request).delayed_by(Duration::from_millis(50 * (number % 4)))
    });
    let server = launch_with_hooks(&backend, &["publish"]).start();
    let mut client = server.client_of("alice");
    client.subscribe("news");
    for number in 0..12 {
        client.send(json!({"publish": {"channel": "news", "data": number}}));
    }
    for number in 0..12 {
        assert_eq!(client.object()["message"]["data"], number);
    }
}

#[test]
fn backend_allows_refuses_and_rewrites_subscriptions() {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["channel"].as_str() {
        Some("private") => BackendReply::status(403),
        Some("failing") => BackendReply::status(500),
        Some("me") => BackendReply::json(json!({"allow": true, "channel": "user.alice"})),
        _ => BackendReply::approval_of(request),
    });
    let server = launch_with_hooks(&backend, &["subscribe"]).start();
    let mut client = server.client_of("alice");
    let subscribe = |channel: &str| json!({"id": 1, "subscribe": {"channel": channel}});
    for (channel, code) in [("private", "forbidden"), ("failing", "unavailable")] {
        client.assert_refused(subscribe(channel), code);
    }
    // The last command does not call the backend, because the session is subscribed already.
    for (channel, actual) in [("news", "news"), ("me", "user.alice"), ("news", "news")] {
        assert_eq!(reply(&mut client, &subscribe(channel))["ok"]["channel"], actual);
    }
    assert_eq!(backend.requests().len(), 4);
    server.admin.publish("user.alice", 1);
    assert_eq!(client.object()["message"]["channel"], "user.alice");
    let expected = json!({"session": client.hello.session, "user": "alice", "channel": "private"});
    assert_eq!(backend.requests()[0].json(), expected);
}

/// Without tokens, hook requests name no user.
#[test]
fn channels_of_urls_and_of_bayeux_clients_are_authorised_too() {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["channel"].as_str() {
        Some("private") => BackendReply::status(403),
        Some("/other") => BackendReply::json(json!({"allow": true, "channel": "/in/its/place"})),
        _ => BackendReply::approval_of(request),
    });
    let server = launch_without_keys(&backend, &["subscribe"]).start();
    let (mut stream, _) = EventStream::greeted(server.public, "channels=news,private");
    assert_eq!(stream.object().1["unsubscribed"], json!({"channel": "private", "reason": "forbidden"}));
    server.admin.publish("private", 1);
    server.admin.publish("news", 2);
    assert_eq!(stream.object().1["message"]["data"], 2);

    // A reply to `/meta/subscribe` cannot name a different channel, so the subscription is refused if the
    // backend names one.
    let (mut polls, id) = BayeuxPolling::opened(server.public, &["/news"]);
    let reply = polls.reply(&subscribe(&id, json!(["/more", "/other"])));
    assert!(reply["error"].as_str().is_some_and(|error| error.starts_with("403:")), "{reply}");
    let session = server.admin.session(&encke_tests::bayeux::session(&id));
    let subscribed: Vec<_> =
        session["subscriptions"].as_array().expect("a list").iter().map(|it| &it["channel"]).collect();
    assert_eq!(subscribed, ["/news"], "all channels or none");
    assert!(backend.requests().iter().all(|request| request.json().get("user").is_none()));
}

/// The session may be taken over or closed while the backend is called. No subscription may remain in that
/// case.
#[test]
fn client_that_leaves_before_the_answer_has_no_subscription() {
    let backend = Backend::start();
    backend.reply_with(|request| BackendReply::approval_of(request).delayed_by(Duration::from_millis(500)));
    let server = launch_with_hooks(&backend, &["subscribe"]).start();
    let mut client = server.client_of("alice");
    client.send(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    until("the backend is called", || backend.requests().len() == 1);
    assert_eq!(server.admin.kick(&client.hello.session).status, 204);
    assert_eq!(client.close_code(), Some(4101));
    until("the request has ended", || server.admin.metrics().value("encke_backend_in_flight") == 0.0);
    assert_eq!(server.admin.get("/api/channels/news").status, 404);
}

/// The subscribe hook also decides who may see the subscribers of a channel, unless the session is one of them.
#[test]
fn presence_needs_the_backends_approval() {
    let backend = Backend::start();
    backend.reply_with(|request| match request.json()["channel"].as_str() {
        Some("private") => BackendReply::status(403),
        Some("me") => BackendReply::json(json!({"allow": true, "channel": "user.alice"})),
        Some("forbidden") => BackendReply::json(json!({"allow": true, "channel": "other"})),
        _ => BackendReply::approval_of(request),
    });
    let server = launch_with_hooks(&backend, &["subscribe"]).start();
    let channels = ["private", "me", "user.alice", "news", "forbidden"];
    let claims = channels.map(|name| (name.to_owned(), json!(["subscribe", "presence", "publish"])));
    let claims = json!({"channels": serde_json::Map::from_iter(claims)});
    let mut client = Client::connect(server.public, &format!("token={}", token("alice", claims)));
    let presence = |channel: &str| json!({"id": 1, "presence": {"channel": channel}});
    client.assert_refused(presence("private"), "forbidden");
    client.assert_refused(presence("forbidden"), "forbidden");
    assert_eq!(reply(&mut client, &presence("me"))["ok"]["channel"], "user.alice");
    assert_eq!(reply(&mut client, &presence("news"))["ok"]["total"], 0);
    assert_eq!(backend.requests().len(), 4);
    client.subscribe("news");
    assert_eq!(reply(&mut client, &presence("news"))["ok"]["total"], 1);
    assert_eq!(backend.requests().len(), 5, "a subscriber may see the others");
}

/// The server's own checks come first, also for a channel that the backend names.
#[test]
fn backend_cannot_extend_the_claims_of_a_token() {
    let backend = Backend::start();
    backend.reply_with(|_| BackendReply::json(json!({"allow": true, "channel": "other"})));
    let server = launch_with_hooks(&backend, &["subscribe", "publish"]).start();
    let claims = json!({"channels": {"news": ["subscribe", "publish"]}});
    let mut client = Client::connect(server.public, &format!("token={}", token("alice", claims)));
    for (channel, calls) in [("other", 0), ("news", 2)] {
        client.assert_refused(json!({"id": 1, "subscribe": {"channel": channel}}), "forbidden");
        client.assert_refused(json!({"id": 2, "publish": {"channel": channel, "data": 1}}), "forbidden");
        assert_eq!(backend.requests().len(), calls, "{channel}");
    }
}
