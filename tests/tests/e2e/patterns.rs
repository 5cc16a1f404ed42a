//! Pattern subscriptions in the `json` dialect.

use encke_tests::raw::{RawClient, TEXT};
use encke_tests::server::tests_use_redis;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::{Client, EventStream, RunningServer};
use serde_json::{Value, json};

#[track_caller]
fn subscribe(client: &mut Client, channel: &str) -> Value {
    let reply = client.request(&json!({"id": 1, "subscribe": {"channel": channel}}).to_string());
    assert_eq!(reply["ok"]["channel"], channel, "{reply}");
    reply["ok"].clone()
}

#[track_caller]
fn message(client: &mut Client) -> Value {
    let object = client.object();
    assert!(object["message"].is_object(), "{object}");
    object["message"].clone()
}

#[test]
fn message_through_a_pattern_has_its_position_in_both_logs() {
    let server = RunningServer::with(&[]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    client.text(r#"{"id":1,"subscribe":{"channel":"/a/*"}}"#);
    let reply: Value = serde_json::from_slice(&client.frame_of(TEXT).payload).expect("JSON");
    let pattern = reply["reply"]["ok"]["epoch"].as_str().expect("an epoch").to_owned();
    let mut publisher = server.client();
    publisher.publish("/b", [1]);
    publisher.publish("/a/b/c", [2]);
    let reply = publisher.request(r#"{"id":1,"publish":{"channel":"/a/b","data":3}}"#);
    let channel = reply["ok"]["epoch"].as_str().expect("an epoch");
    let expected = format!(
        r#"{{"message":{{"seq":1,"pattern":{{"name":"/a/*","epoch":"{pattern}","offset":1}},"epoch":"{channel}","channel":"/a/b","offset":1,"data":3}}}}"#
    );
    assert_eq!(client.text_message(), expected);
}

#[test]
fn message_arrives_once_if_several_subscriptions_match() {
    let server = RunningServer::with(&["limits.commands_per_second=0"]);
    let mut client = server.client();
    for name in ["/a/b", "/a/*", "/a/**", "/**", "news"] {
        subscribe(&mut client, name);
    }
    let mut publisher = server.client();
    for number in 1..=100 {
        publisher.publish("/a/b", [number]);
        if number == 50 {
            client.send(r#"{"unsubscribe":{"channel":"/**"}}"#);
            client.send(r#"{"unsubscribe":{"channel":"/a/b"}}"#);
        }
    }
    for number in 1..=100 {
        let message = message(&mut client);
        assert_eq!((&message["seq"], &message["offset"]), (&json!(number), &json!(number)), "{message}");
    }
    publisher.publish("/c", [1]);
    publisher.publish("news", [1]);
    assert_eq!(message(&mut client)["channel"], "news", "no other message precedes it");
}

#[test]
fn since_of_a_pattern_returns_later_messages_and_gaps_name_it() {
    let server = RunningServer::with(&["channel.history_messages=3"]);
    let mut client = server.client();
    let epoch = subscribe(&mut client, "/a/**")["epoch"].clone();
    let mut publisher = server.client();
    for number in 1..=6 {
        publisher.publish(&format!("/a/{number}"), [number]);
    }
    let since = |offset: u64| {
        let mut client = server.client();
        let since = json!({"epoch": epoch, "offset": offset});
        let reply =
            client.request(&json!({"id": 1, "subscribe": {"channel": "/a/**", "since": since}}).to_string());
        assert_eq!((&reply["ok"]["recovered"], &reply["ok"]["offset"]), (&json!(offset >= 3), &json!(6)));
        client
    };
    let mut client = since(4);
    for number in [5, 6] {
        let message = message(&mut client);
        assert_eq!(message["pattern"], json!({"name": "/a/**", "epoch": epoch, "offset": number}));
        assert_eq!((&message["channel"], &message["offset"]), (&json!(format!("/a/{number}")), &json!(1)));
    }
    let gap = json!({"gap": {"seq": 1, "channel": "/a/**", "epoch": epoch, "from": 2, "to": 3}});
    assert_eq!(since(1).object(), gap);
}

/// A message that was already sent through a pattern is not sent again through its channel. On that channel,
/// `last` therefore behaves like `since`.
#[test]
fn last_of_a_pattern_returns_its_newest_messages() {
    let server = RunningServer::with(&["channel.history_messages=3"]);
    let mut client = server.client();
    let epoch = subscribe(&mut client, "/a/**")["epoch"].clone();
    let mut publisher = server.client();
    for number in 1..=6 {
        publisher.publish(&format!("/a/{number}"), [number]);
        assert_eq!(message(&mut client)["data"], number);
    }
    for (count, expected) in [(2, 5..=6), (3, 4..=6), (9, 4..=6)] {
        let mut client = server.client();
        let reply =
            client.request(&json!({"id": 1, "subscribe": {"channel": "/a/**", "last": count}}).to_string());
        assert_eq!(reply["ok"], json!({"channel": "/a/**", "epoch": epoch, "offset": 6}));
        for number in expected {
            let message = message(&mut client);
            let place = json!({"name": "/a/**", "epoch": epoch, "offset": number});
            assert_eq!((&message["pattern"], &message["data"]), (&place, &json!(number)));
        }
    }
    let reply = client.request(&json!({"id": 1, "subscribe": {"channel": "/a/6", "last": 1}}).to_string());
    assert_eq!(reply["ok"]["offset"], 1, "{reply}");
    publisher.publish("/a/6", [7]);
    let mut next = message(&mut client);
    // With Redis, a log without earlier subscribers has no record of what was sent through the pattern, so a
    // message may arrive through both.
    if tests_use_redis() && next["data"] == 6 {
        next = message(&mut client);
    }
    assert_eq!(next["data"], 7);
}

#[test]
fn resumed_session_continues_in_its_patterns() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    subscribe(&mut client, "/a/**");
    subscribe(&mut client, "/a/b");
    let mut publisher = server.client();
    publisher.publish("/a/b", [1]);
    assert_eq!(message(&mut client)["data"], 1);
    let hello = client.drop_connection();
    for number in 2..=5 {
        publisher.publish(if number % 2 == 0 { "/a/b" } else { "/a/c" }, [number]);
    }
    let mut client = Client::connect(server.public, &format!("resume={}&seq=1", hello.resume));
    assert!(client.hello.recovered);
    for number in 2..=5 {
        let message = message(&mut client);
        assert_eq!((&message["seq"], &message["data"]), (&json!(number), &json!(number)));
    }
}

#[test]
fn a_token_must_cover_all_that_a_pattern_can_match() {
    let server = RunningServer::with(&[&format!("auth.secret={SECRET}")]);
    let claims = json!({"sub": "a", "exp": 4_000_000_000_u64, "channels": {"/a/*": ["subscribe"], "/b": ["subscribe"]}});
    let token = sign(&claims, SECRET);
    let mut client = Client::connect(server.public, &format!("token={token}"));
    for name in ["/a/*", "/a/**", "/a/b/*"] {
        subscribe(&mut client, name);
    }
    for name in ["/*", "/**", "/b/*"] {
        let reply = client.request(&json!({"id": 1, "subscribe": {"channel": name}}).to_string());
        assert_eq!(reply["error"]["code"], "forbidden", "{name}");
    }
}

#[test]
fn patterns_count_as_channels_and_are_shown_by_the_api() {
    let server = RunningServer::with(&["limits.max_subscriptions=2", "limits.max_channels=3"]);
    let mut client = server.client();
    subscribe(&mut client, "/a/*");
    subscribe(&mut client, "/a/b");
    let reply = client.request(r#"{"id":1,"subscribe":{"channel":"/a/**"}}"#);
    assert_eq!(reply["error"]["code"], "limit");
    let mut other = server.client_from("127.0.0.2");
    let present = other.request(r#"{"id":1,"presence":{"channel":"/a/*"}}"#);
    assert_eq!(present["ok"]["total"], 1, "subscribers of the pattern");
    subscribe(&mut other, "/c");
    let reply = other.request(r#"{"id":1,"subscribe":{"channel":"/d"}}"#);
    assert_eq!(reply["error"]["code"], "limit");
    server.admin.publish("/a/b", json!("x"));
    let page = server.admin.get("/api/channels").json();
    let channels = page["channels"].as_array().expect("a list");
    let shown: Vec<_> = channels.iter().map(|it| (it["channel"].clone(), it["pattern"].clone())).collect();
    assert_eq!(
        shown,
        [(json!("/a/*"), json!(true)), (json!("/a/b"), json!(false)), (json!("/c"), json!(false))]
    );
    let history = server.admin.get("/api/channels/%2Fa%2F%2A/history").json();
    assert_eq!(history["messages"][0]["channel"], "/a/b");
    assert!(
        server.admin.get("/api/channels/%2Fa%2Fb/history").json()["messages"][0].get("channel").is_none()
    );
}

#[test]
fn event_stream_supports_patterns_and_its_ids_contain_positions() {
    let server = RunningServer::with(&["session.reconnect_window=1s"]);
    let query = "channels=/a/b,/a/*";
    let mut stream = EventStream::open(server.public, query);
    let hello = stream.hello();
    let mut publisher = server.client();
    publisher.publish("/a/c", [1]);
    publisher.publish("/a/b", [2]);
    let mut last_id = String::new();
    for (number, channel) in [(1, "/a/c"), (2, "/a/b")] {
        let (id, object) = stream.object();
        let message = &object["message"];
        assert_eq!((&message["data"], &message["channel"]), (&json!(number), &json!(channel)));
        last_id = id.expect("a message has an id");
    }
    // If the second message was delivered through the channel, the pattern's position is behind. The
    // channel's position is known in either case.
    let positions = last_id.split_once(';').expect("the id has positions").1;
    assert!(positions.split(',').next().is_some_and(|channel| channel.ends_with(":1")), "{positions}");
    drop(stream);
    server.await_removal(&hello.session);
    publisher.publish("/a/b", [3]);
    publisher.publish("/a/c", [4]);
    let mut stream = EventStream::reconnect(server.public, query, &last_id);
    assert!(!stream.hello().recovered);
    let mut received = Vec::new();
    while received.last() != Some(&json!(4)) {
        received.push(stream.object().1["message"]["data"].clone());
    }
    received.retain(|data| *data != 2);
    assert_eq!(received, [3, 4]);
}
