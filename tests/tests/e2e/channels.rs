use std::time::Duration;

use encke_tests::events::request_events;
use encke_tests::raw::{CLOSE, RawClient, TEXT, masked};
use encke_tests::server::IN_MEMORY;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{let_pass, until};
use encke_tests::{Client, Launch, RunningServer};
use serde_json::json;

const LIMIT: u16 = 4104;

/// Returns a client that is subscribed to `news`, and the epoch of the log.
#[track_caller]
fn subscriber(server: &RunningServer) -> (RawClient, String) {
    let (mut client, _) = RawClient::greeted(server.public, "");
    client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    let reply = client.text_message();
    let rest = reply.strip_prefix(r#"{"reply":{"id":1,"ok":{"channel":"news","epoch":""#).expect(&reply);
    let epoch = rest.split('"').next().expect("the epoch ends with a quote").to_owned();
    (client, epoch)
}

/// Subscribes a new client to the messages after `offset`. Returns the client and the first line that it
/// receives.
#[track_caller]
fn since(server: &RunningServer, epoch: &str, offset: u64) -> (RawClient, String) {
    let (mut client, _) = RawClient::greeted(server.public, "");
    client.text(&format!(
        r#"{{"id":2,"subscribe":{{"channel":"news","since":{{"epoch":"{epoch}","offset":{offset}}}}}}}"#
    ));
    let reply = client.text_message();
    (client, reply)
}

pub(crate) fn message(seq: u64, offset: u64) -> String {
    format!(r#"{{"message":{{"seq":{seq},"channel":"news","offset":{offset},"data":{offset}}}}}"#)
}

fn subscribed(epoch: &str, offset: u64, recovered: bool) -> String {
    format!(
        r#"{{"reply":{{"id":2,"ok":{{"channel":"news","epoch":"{epoch}","offset":{offset},"recovered":{recovered}}}}}}}"#
    )
}

/// Escapes do not make another name, and white space between the tokens of the data is removed.
#[test]
fn subscriber_receives_later_messages() {
    let server = RunningServer::with(&[]);
    let mut publisher = server.client();
    publisher.publish(r#"a \"b\"/é~"#, [1]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    client.text(r#"{"subscribe":{"channel":"other"}}"#);
    client.text(r#"{"id":1,"subscribe":{"channel":"a \"b\"/é~"}}"#);
    let line = client.text_message();
    let publish = r#"{"id":2,"publish":{"channel":"a \"b\"\/\u00e9~","data": {"any" : ["json" ,null ] } }}"#;
    let reply = publisher.request(publish);
    let epoch = reply["ok"]["epoch"].as_str().expect("a text").to_owned();
    assert_eq!(epoch.len(), 11, "64 bits in base64: {epoch}");
    assert_eq!(reply, json!({"id": 2, "ok": {"offset": 2, "epoch": epoch}}));
    let subscribed = r#"{"reply":{"id":1,"ok":{"channel":"a \"b\"/é~","epoch":"EPOCH","offset":1}}}"#;
    assert_eq!(line, subscribed.replace("EPOCH", &epoch), "a command without an id is not answered");
    publisher.publish("other", [7]);
    assert_eq!(
        [client.text_message(), client.text_message()],
        [
            r#"{"message":{"seq":1,"channel":"a \"b\"/é~","offset":2,"data":{"any":["json",null]}}}"#,
            r#"{"message":{"seq":2,"channel":"other","offset":1,"data":7}}"#
        ]
    );
    let metrics = server.admin.metrics();
    assert_eq!(metrics.value("encke_messages_published_total"), 3.0);
    assert_eq!(metrics.value("encke_messages_delivered_total"), 2.0);
    assert_eq!(metrics.value("encke_gaps_total"), 0.0);
}

#[test]
fn since_returns_exactly_the_later_messages_or_begins_with_a_gap() {
    let server = RunningServer::with(&["channel.history_messages=4"]);
    let mut publisher = server.client();
    publisher.publish("news", 1..=10);
    let epoch = server.client().subscribe("news");
    for (from, recovered) in [(10, true), (8, true), (6, true), (2, false)] {
        let (mut client, reply) = since(&server, &epoch, from);
        assert_eq!(reply, subscribed(&epoch, 10, recovered));
        let mut seq = 1;
        if !recovered {
            let gap = format!(r#"{{"gap":{{"seq":1,"channel":"news","epoch":"{epoch}","from":3,"to":6}}}}"#);
            assert_eq!(client.text_message(), gap);
            seq = 2;
        }
        for (seq, offset) in (seq..).zip(from.max(6) + 1..=10) {
            assert_eq!(client.text_message(), message(seq, offset));
        }
    }
    let (mut client, _) = since(&server, &epoch, 10);
    publisher.publish("news", [11]);
    assert_eq!(client.text_message(), message(1, 11));
    assert_eq!(server.admin.metrics().value("encke_gaps_total"), 1.0);
}

/// A log with fewer messages than `last` delivers all of them without a gap.
#[test]
fn last_returns_the_newest_messages_and_then_later_ones() {
    let server = RunningServer::with(&["channel.history_messages=4"]);
    let mut publisher = server.client();
    publisher.publish("news", 1..=10);
    let mut clients = [(0, 0), (1, 1), (4, 4), (5, 4), (u64::MAX, 4)].map(|(count, expected)| {
        let (mut client, _) = RawClient::greeted(server.public, "");
        client.text(&format!(r#"{{"id":2,"subscribe":{{"channel":"news","last":{count}}}}}"#));
        assert!(client.text_message().contains(r#""offset":10}}"#));
        (client, expected)
    });
    // Read all messages before the next one evicts the oldest.
    for (client, expected) in &mut clients {
        for (seq, offset) in (1..).zip(11 - *expected..=10) {
            assert_eq!(client.text_message(), message(seq, offset), "{expected}");
        }
    }
    publisher.publish("news", [11]);
    for (client, expected) in &mut clients {
        assert_eq!(client.text_message(), message(*expected + 1, 11), "{expected}");
    }
    for both in [r#""last":1,"since":{"epoch":"e","offset":1}"#, r#""last":-1"#] {
        let command = format!(r#"{{"id":3,"subscribe":{{"channel":"else",{both}}}}}"#);
        publisher.assert_refused(&command, "malformed");
    }
}

/// `server/broker/src/channel/name.rs` tests all rules of names.
#[test]
fn invalid_and_reserved_names_are_rejected() {
    let server = RunningServer::with(&[IN_MEMORY, "channel.name_bytes=16"]);
    let mut client = server.client();
    for (name, may_be_subscribed) in [
        ("", false),
        ("a,b", false),
        (r"a\u0000", false),
        ("12345678901234567", false),
        ("$user", false),
        ("desk-*", false),
        ("/a/**", true),
        ("/meta/connect", true),
        ("/service/echo", true),
    ] {
        let channel = format!(r#"{{"channel":"{name}""#);
        if !may_be_subscribed {
            client.assert_refused(format!(r#"{{"id":1,"subscribe":{channel}}}}}"#), "bad_channel");
        }
        client.assert_refused(format!(r#"{{"id":1,"publish":{channel},"data":1}}}}"#), "bad_channel");
        let answer = server.admin.post("/api/publish", format!(r#"{channel},"data":1}}"#));
        assert_eq!((answer.status, &*answer.error_code()), (400, "bad_channel"), "{name}");
    }
    for path in ["/api/channels/$user", "/api/channels/$user/history", "/api/channels/$user/presence"] {
        assert_eq!(server.admin.get(path).error_code(), "bad_channel", "{path}");
    }
    assert_eq!(request_events(server.public, "channels=$user", "").status, 400);
    for name in ["a.b", "/a/b", "/meta", "1234567890123456"] {
        client.publish(name, [1]);
    }
    client.assert_refused(r#"{"id":1,"subscribe":{"channel":7}}"#, "malformed");
    client.assert_refused(r#"{"id":1,"publish":{"channel":"a"}}"#, "malformed");
    client.assert_refused(r#"{"id":1,"subscribe":{"channel":"a","since":{"offset":1}}}"#, "malformed");
    assert_eq!(server.admin.metrics().value("encke_channels"), 4.0);
}

fn channel_names(server: &RunningServer) -> Vec<String> {
    let channels = server.admin.get("/api/channels").json();
    let channels = channels["channels"].as_array().expect("a list").clone();
    channels.iter().map(|channel| channel["channel"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn creator_of_most_unused_channels_loses_one_first() {
    let launch = Launch::with(&[IN_MEMORY, "limits.max_channels=6", "limits.max_channels_per_user=4"]);
    let server = launch.environment("ENCKE_AUTH__SECRET", SECRET).start();
    let connect = |user: &str| {
        let claims = json!({"sub": user, "channels": {format!("{user}.*"): ["subscribe", "publish"]}});
        Client::connect(server.public, &format!("token={}", sign(&claims, SECRET)))
    };
    let (mut alice, mut bob, mut carol) = (connect("alice"), connect("bob"), connect("carol"));
    ["x", "y"].iter().for_each(|channel| _ = server.admin.publish(channel, 1));
    for number in 0..4 {
        alice.publish(&format!("alice.{number}"), [1]);
    }
    alice.assert_refused(r#"{"id":1,"publish":{"channel":"alice.4","data":1}}"#, "limit");
    alice.subscribe("alice.0");
    // Alice created the most channels, so her oldest channel without subscribers is evicted.
    bob.publish("bob.0", [1]);
    assert_eq!(channel_names(&server), ["alice.0", "alice.2", "alice.3", "bob.0", "x", "y"]);
    carol.publish("carol.0", [1]);
    assert_eq!(channel_names(&server), ["alice.0", "alice.3", "bob.0", "carol.0", "x", "y"]);
    // Channels created through the API are evicted last.
    let kept: Vec<_> = (1..=3)
        .map(|number| {
            bob.subscribe(&format!("bob.{number}"));
            channel_names(&server)
        })
        .collect();
    assert!(kept.iter().all(|names| names.ends_with(&["x".to_owned(), "y".to_owned()])), "{kept:?}");
    assert_eq!(server.admin.metrics().value("encke_channels"), 6.0);
}

/// Acknowledgements do not count. A flood ends the session.
#[test]
fn commands_beyond_the_rate_are_refused() {
    let server = RunningServer::with(&["limits.commands_per_second=1"]);
    let mut client = server.client();
    let unsubscribe = r#"{"id":1,"unsubscribe":{"channel":"a"}}"#;
    let ok = json!({"id": 1, "ok": {}});
    assert_eq!(client.request(unsubscribe), ok);
    until("a command is refused", || {
        let reply = client.request(unsubscribe);
        reply["error"]["code"] == "rate_limited"
    });
    assert_eq!(client.request(r#"{"id":1,"ack":{"seq":0}}"#), ok);
    let_pass(Duration::from_secs(2));
    assert_eq!(client.request(unsubscribe), ok);

    let (mut client, hello) = RawClient::greeted(server.public, "");
    client.send(masked(TEXT, unsubscribe.as_bytes()).repeat(50));
    let mut replies = 0;
    let close = loop {
        let frame = client.frame();
        if frame.first == CLOSE {
            break frame;
        }
        replies += 1;
    };
    assert_eq!(close.payload, [&LIMIT.to_be_bytes()[..], b"limit"].concat());
    assert!(replies < 50, "{replies}");
    server.await_removal(&hello.session);
    server.await_lifecycle(&hello.session, "opened connect, closed limit");
    assert!(!server.resume(&hello.resume).hello.recovered);
}

#[test]
fn expired_messages_and_unused_channels_are_removed() {
    let server = RunningServer::with(&[IN_MEMORY, "channel.history_age=3s"]);
    let (mut early, epoch) = subscriber(&server);
    let mut publisher = server.client();
    publisher.publish("news", [1, 2, 3]);
    publisher.publish("other", [1]);
    for offset in 1..=3 {
        assert_eq!(early.text_message(), message(offset, offset));
    }
    until("the logs are empty", || server.admin.metrics().value("encke_log_bytes") == 0.0);
    until("the unused channel is removed", || server.admin.metrics().value("encke_channels") == 1.0);

    let (mut late, reply) = since(&server, &epoch, 0);
    assert_eq!(reply, subscribed(&epoch, 3, false));
    let gap = format!(r#"{{"gap":{{"seq":1,"channel":"news","epoch":"{epoch}","from":1,"to":3}}}}"#);
    assert_eq!(late.text_message(), gap);
    publisher.publish("news", [4]);
    assert_eq!(late.text_message(), message(2, 4));
    assert_eq!(early.text_message(), message(4, 4));

    for client in [&mut early, &mut late] {
        client.text(r#"{"id":5,"unsubscribe":{"channel":"news"}}"#);
        assert_eq!(client.text_message(), r#"{"reply":{"id":5,"ok":{}}}"#);
    }
    until("the channel is removed", || server.admin.metrics().value("encke_channels") == 0.0);
    let (mut back, reply) = since(&server, &epoch, 4);
    assert_eq!(reply, subscribed(&epoch, 4, true), "nothing was missed");
    publisher.publish("news", [5]);
    assert_eq!(back.text_message(), message(1, 5));
}

#[test]
fn a_channel_has_a_new_epoch_if_its_position_is_not_kept() {
    let server = RunningServer::with(&[IN_MEMORY, "channel.kept_positions=0"]);
    let (mut client, epoch) = subscriber(&server);
    client.text(r#"{"id":5,"unsubscribe":{"channel":"news"}}"#);
    assert_eq!(client.text_message(), r#"{"reply":{"id":5,"ok":{}}}"#);
    until("the channel is removed", || server.admin.metrics().value("encke_channels") == 0.0);
    assert_ne!(server.client().subscribe("news"), epoch, "the log has a new epoch");
}
