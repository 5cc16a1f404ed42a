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

fn message(seq: u64, offset: u64) -> String {
    format!(r#"{{"message":{{"seq":{seq},"channel":"news","offset":{offset},"data":{offset}}}}}"#)
}

fn subscribed(epoch: &str, offset: u64, recovered: bool) -> String {
    format!(
        r#"{{"reply":{{"id":2,"ok":{{"channel":"news","epoch":"{epoch}","offset":{offset},"recovered":{recovered}}}}}}}"#
    )
}

#[track_caller]
fn assert_refused(client: &mut Client, command: &str, code: &str) {
    let reply = client.request(command);
    assert_eq!(reply["error"]["code"], code, "{command}: {reply}");
    assert!(reply["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{reply}");
}

#[test]
fn subscriber_receives_later_messages() {
    let server = RunningServer::with(&[]);
    let mut publisher = server.client();
    publisher.publish("news", [1]);
    let (mut client, _) = RawClient::greeted(server.public, "");
    client.text(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    let line = client.text_message();
    let reply = publisher.request(r#"{"id":2,"publish":{"channel":"news","data":{"any":["json",null]}}}"#);
    let epoch = reply["ok"]["epoch"].as_str().expect("a text").to_owned();
    assert_eq!(epoch.len(), 11, "64 bits in base64: {epoch}");
    assert_eq!(reply, json!({"id": 2, "ok": {"offset": 2, "epoch": epoch}}));
    let subscribed = r#"{"reply":{"id":1,"ok":{"channel":"news","epoch":"EPOCH","offset":1}}}"#;
    assert_eq!(line, subscribed.replace("EPOCH", &epoch));
    let message = r#"{"message":{"seq":1,"channel":"news","offset":2,"data":{"any":["json",null]}}}"#;
    assert_eq!(client.text_message(), message);
    let metrics = server.admin.metrics();
    assert_eq!(metrics.value("encke_messages_published_total"), 2.0);
    assert_eq!(metrics.value("encke_messages_delivered_total"), 1.0);
    assert_eq!(metrics.value("encke_gaps_total"), 0.0);
}

#[test]
fn subscribed_publisher_receives_its_own_messages() {
    let server = RunningServer::with(&[]);
    let (mut client, epoch) = subscriber(&server);
    client.text(r#"{"id":2,"publish":{"channel":"news","data":1}}"#);
    client.text(r#"{"id":3,"publish":{"channel":"news","data":2}}"#);
    let mut received =
        [client.text_message(), client.text_message(), client.text_message(), client.text_message()];
    // Messages and replies may interleave: only the order within each kind is guaranteed.
    received.sort_by_key(|line| line.starts_with(r#"{"message""#));
    let reply = |id: u64, offset: u64| {
        format!(r#"{{"reply":{{"id":{id},"ok":{{"offset":{offset},"epoch":"{epoch}"}}}}}}"#)
    };
    assert_eq!(received, [reply(2, 1), reply(3, 2), message(1, 1), message(2, 2)]);
}

#[test]
fn all_subscribers_receive_the_same_messages() {
    let server = RunningServer::with(&["limits.commands_per_second=0"]);
    let mut clients: Vec<_> = (0..3).map(|_| subscriber(&server).0).collect();
    server.client().publish("news", 1..=200);
    for client in &mut clients {
        for offset in 1..=200 {
            assert_eq!(client.text_message(), message(offset, offset));
        }
    }
}

#[test]
fn seqs_run_across_the_channels_of_a_session() {
    let server = RunningServer::with(&[]);
    let (mut client, _) = subscriber(&server);
    client.text(r#"{"subscribe":{"channel":"a \"b\"/é*"}}"#);
    client.text(r#"{"id":9,"ack":{"seq":0}}"#);
    assert_eq!(
        client.text_message(),
        r#"{"reply":{"id":9,"ok":{}}}"#,
        "a command without an id is not answered"
    );
    let mut publisher = server.client();
    publisher.publish("news", [1]);
    assert_eq!(client.text_message(), message(1, 1));
    publisher.publish(r#"a \"b\"\/\u00e9*"#, [7]);
    assert_eq!(
        client.text_message(),
        r#"{"message":{"seq":2,"channel":"a \"b\"/é*","offset":1,"data":7}}"#,
        "escapes do not make another name"
    );
    publisher.publish("news", [2]);
    assert_eq!(client.text_message(), message(3, 2));
}

#[test]
fn unsubscribed_client_receives_no_messages() {
    let server = RunningServer::with(&[IN_MEMORY]);
    let (mut client, epoch) = subscriber(&server);
    let mut publisher = server.client();
    publisher.publish("news", [1]);
    assert_eq!(client.text_message(), message(1, 1));
    for id in [2, 3] {
        // The second unsubscribe has no effect but succeeds as well.
        client.text(&format!(r#"{{"id":{id},"unsubscribe":{{"channel":"news"}}}}"#));
        assert_eq!(client.text_message(), format!(r#"{{"reply":{{"id":{id},"ok":{{}}}}}}"#));
    }
    publisher.publish("news", [2]);
    client.text(r#"{"id":4,"publish":{"channel":"news","data":3}}"#);
    let reply = format!(r#"{{"reply":{{"id":4,"ok":{{"offset":3,"epoch":"{epoch}"}}}}}}"#);
    assert_eq!(client.text_message(), reply);
    client.text(r#"{"id":5,"subscribe":{"channel":"news"}}"#);
    assert!(client.text_message().contains(r#""offset":3"#));
    publisher.publish("news", [4]);
    assert_eq!(client.text_message(), message(2, 4), "the seq continues");
}

#[test]
fn subscribing_again_does_not_move_the_cursor() {
    let server = RunningServer::with(&[]);
    let (mut client, epoch) = subscriber(&server);
    let mut publisher = server.client();
    publisher.publish("news", [1, 2]);
    assert_eq!(client.text_message(), message(1, 1));
    assert_eq!(client.text_message(), message(2, 2));
    client.text(&format!(
        r#"{{"id":4,"subscribe":{{"channel":"news","since":{{"epoch":"{epoch}","offset":0}}}}}}"#
    ));
    let reply = format!(r#"{{"reply":{{"id":4,"ok":{{"channel":"news","epoch":"{epoch}","offset":2"#);
    let line = client.text_message();
    assert!(line.starts_with(&reply), "{line}");
    publisher.publish("news", [3]);
    assert_eq!(client.text_message(), message(3, 3), "no message is sent again");
}

#[test]
fn since_returns_exactly_the_later_messages() {
    let server = RunningServer::with(&[]);
    let (_subscriber, epoch) = subscriber(&server);
    let mut publisher = server.client();
    publisher.publish("news", 1..=5);
    let (mut client, reply) = since(&server, &epoch, 2);
    assert_eq!(reply, subscribed(&epoch, 5, true));
    for (seq, offset) in [(1, 3), (2, 4), (3, 5)] {
        assert_eq!(client.text_message(), message(seq, offset));
    }
    let (mut current, reply) = since(&server, &epoch, 5);
    assert_eq!(reply, subscribed(&epoch, 5, true));
    publisher.publish("news", [6]);
    assert_eq!(client.text_message(), message(4, 6));
    assert_eq!(current.text_message(), message(1, 6));
}

/// A log with fewer messages than `last` delivers all of them without a gap.
#[test]
fn last_returns_the_newest_messages_and_then_later_ones() {
    let server = RunningServer::with(&["channel.history_messages=4"]);
    let (_subscriber, epoch) = subscriber(&server);
    let last = |count: u64, newest: u64| {
        let (mut client, _) = RawClient::greeted(server.public, "");
        client.text(&format!(r#"{{"id":2,"subscribe":{{"channel":"news","last":{count}}}}}"#));
        let reply = format!(
            r#"{{"reply":{{"id":2,"ok":{{"channel":"news","epoch":"{epoch}","offset":{newest}}}}}}}"#
        );
        assert_eq!(client.text_message(), reply);
        client
    };
    let mut empty = last(3, 0);
    let mut publisher = server.client();
    publisher.publish("news", [1]);
    assert_eq!(empty.text_message(), message(1, 1));
    publisher.publish("news", 2..=10);
    let mut clients: Vec<_> = [(0, 0), (1, 1), (3, 3), (4, 4), (5, 4), (u64::MAX, 4)]
        .map(|(count, expected)| (last(count, 10), expected))
        .into();
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
    let both = r#"{"id":3,"subscribe":{"channel":"else","last":1,"since":{"epoch":"e","offset":1}}}"#;
    assert_refused(&mut publisher, both, "malformed");
    assert_refused(&mut publisher, r#"{"id":3,"subscribe":{"channel":"else","last":-1}}"#, "malformed");
}

#[test]
fn since_an_evicted_offset_begins_with_a_gap() {
    let server = RunningServer::with(&["channel.history_messages=4"]);
    let mut publisher = server.client();
    publisher.publish("news", 1..=10);
    let epoch = server.client().subscribe("news");
    let (mut client, reply) = since(&server, &epoch, 2);
    assert_eq!(reply, subscribed(&epoch, 10, false));
    let gap = format!(r#"{{"gap":{{"seq":1,"channel":"news","epoch":"{epoch}","from":3,"to":6}}}}"#);
    assert_eq!(client.text_message(), gap);
    for (seq, offset) in [(2, 7), (3, 8), (4, 9), (5, 10)] {
        assert_eq!(client.text_message(), message(seq, offset));
    }
    publisher.publish("news", [11]);
    assert_eq!(client.text_message(), message(6, 11));
    let (mut client, reply) = since(&server, &epoch, 7);
    assert_eq!(reply, subscribed(&epoch, 11, true), "the oldest message left is the next one");
    assert_eq!(client.text_message(), message(1, 8));
    assert_eq!(server.admin.metrics().value("encke_gaps_total"), 1.0);
}

#[test]
fn since_of_another_epoch_or_a_future_offset_is_a_gap_without_a_range() {
    let server = RunningServer::with(&[]);
    let (_subscriber, epoch) = subscriber(&server);
    let mut publisher = server.client();
    publisher.publish("news", [1, 2]);
    let gap = format!(r#"{{"gap":{{"seq":1,"channel":"news","epoch":"{epoch}"}}}}"#);

    let (mut other, reply) = since(&server, "AAAAAAAAAAA", 1);
    assert_eq!(reply, subscribed(&epoch, 2, false));
    assert_eq!(other.text_message(), gap);
    assert_eq!(other.text_message(), message(2, 1), "all messages of the current epoch");
    assert_eq!(other.text_message(), message(3, 2));

    for (offset, last) in [(3, 2), (u64::MAX, 3)] {
        let (mut future, reply) = since(&server, &epoch, offset);
        assert_eq!(reply, subscribed(&epoch, last, false));
        assert_eq!(future.text_message(), gap);
        publisher.publish("news", [last + 1]);
        assert_eq!(future.text_message(), message(2, last + 1), "only later messages");
    }
}

#[test]
fn reserved_names_patterns_and_services_are_rejected() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    for command in ["subscribe", "presence"] {
        let command = format!(r#"{{"id":1,"{command}":{{"channel":"$user"}}}}"#);
        assert_refused(&mut client, &command, "bad_channel");
    }
    for name in ["$user", "/*", "/a/**", "/meta/connect", "/service/echo"] {
        let command = format!(r#"{{"id":1,"publish":{{"channel":"{name}","data":1}}}}"#);
        assert_refused(&mut client, &command, "bad_channel");
        let answer = server.admin.post("/api/publish", &format!(r#"{{"channel":"{name}","data":1}}"#));
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].clone()),
            (400, json!("bad_channel")),
            "{name}"
        );
    }
    for path in ["/api/channels/$user", "/api/channels/$user/history", "/api/channels/$user/presence"] {
        assert_eq!(server.admin.get(path).json()["error"]["code"], "bad_channel", "{path}");
    }
    assert_eq!(request_events(server.public, "channels=$user", "").status, 400);
    for name in ["a.*", "/a/*b", "/meta"] {
        client.publish(name, [1]);
    }
    assert_eq!(server.admin.metrics().value("encke_messages_published_total"), 3.0);
}

#[test]
fn invalid_channel_names_are_rejected() {
    let server = RunningServer::with(&["channel.name_bytes=8"]);
    let mut client = server.client();
    for name in ["", "a,b", r"a\nb", r"a\u0000", r"\u0085", "123456789", "ééééé"] {
        assert_refused(
            &mut client,
            &format!(r#"{{"id":1,"subscribe":{{"channel":"{name}"}}}}"#),
            "bad_channel",
        );
        assert_refused(
            &mut client,
            &format!(r#"{{"id":1,"publish":{{"channel":"{name}","data":1}}}}"#),
            "bad_channel",
        );
        let reply = client.request(&format!(r#"{{"id":1,"unsubscribe":{{"channel":"{name}"}}}}"#));
        assert_eq!(reply, json!({"id": 1, "ok": {}}), "the session is not subscribed");
    }
    client.subscribe("12345678");
    assert_refused(&mut client, r#"{"id":1,"subscribe":{"channel":7}}"#, "malformed");
    assert_refused(&mut client, r#"{"id":1,"publish":{"channel":"a"}}"#, "malformed");
    assert_refused(&mut client, r#"{"id":1,"subscribe":{"channel":"a","since":{"offset":1}}}"#, "malformed");
    assert_eq!(server.admin.metrics().value("encke_channels"), 1.0);
}

#[test]
fn subscriptions_of_a_session_are_limited() {
    let server = RunningServer::with(&["limits.max_subscriptions=2"]);
    let mut client = server.client();
    client.subscribe("a");
    client.subscribe("b");
    assert_refused(&mut client, r#"{"id":1,"subscribe":{"channel":"c"}}"#, "limit");
    client.subscribe("a");
    client.request(r#"{"id":1,"unsubscribe":{"channel":"a"}}"#);
    client.subscribe("c");
    assert_refused(&mut client, r#"{"id":1,"subscribe":{"channel":"a"}}"#, "limit");
    server.client().subscribe("a");
}

#[test]
fn number_of_channels_is_limited() {
    let server = RunningServer::with(&[IN_MEMORY, "limits.max_channels=2"]);
    let (mut client, mut other) = (server.client(), server.client_from("127.0.0.2"));
    client.subscribe("a");
    assert_refused(&mut client, r#"{"id":1,"subscribe":{"channel":"b"}}"#, "limit");
    other.subscribe("b");
    assert_refused(&mut client, r#"{"id":1,"subscribe":{"channel":"c"}}"#, "limit");
    assert_refused(&mut client, r#"{"id":1,"publish":{"channel":"c","data":1}}"#, "limit");
    client.publish("b", [2]);
    client.request(r#"{"id":1,"unsubscribe":{"channel":"a"}}"#);
    client.subscribe("c");
    assert_eq!(server.admin.metrics().value("encke_channels"), 2.0);
}

/// Returns the names of all channels.
fn names(server: &RunningServer) -> Vec<String> {
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
    assert_refused(&mut alice, r#"{"id":1,"publish":{"channel":"alice.4","data":1}}"#, "limit");
    alice.subscribe("alice.0");
    // Alice created the most channels, so her oldest channel without subscribers is evicted.
    bob.publish("bob.0", [1]);
    assert_eq!(names(&server), ["alice.0", "alice.2", "alice.3", "bob.0", "x", "y"]);
    carol.publish("carol.0", [1]);
    assert_eq!(names(&server), ["alice.0", "alice.3", "bob.0", "carol.0", "x", "y"]);
    // Channels created through the API are evicted last.
    let kept: Vec<_> = (1..=3)
        .map(|number| {
            bob.subscribe(&format!("bob.{number}"));
            names(&server)
        })
        .collect();
    assert!(kept.iter().all(|names| names.ends_with(&["x".to_owned(), "y".to_owned()])), "{kept:?}");
    assert_eq!(server.admin.metrics().value("encke_channels"), 6.0);
}

#[test]
fn publisher_that_fills_the_logs_loses_its_own_history_first() {
    let launch = Launch::with(&[
        "limits.max_message=2KiB",
        "channel.history_bytes=16KiB",
        "channel.history_total_bytes=32KiB",
        "limits.commands_per_second=0",
    ]);
    let server = launch.environment("ENCKE_AUTH__SECRET", SECRET).start();
    let connect = |user: &str| {
        let claims = json!({"sub": user, "channels": {format!("{user}.*"): ["publish"]}});
        Client::connect(server.public, &format!("token={}", sign(&claims, SECRET)))
    };
    let data = format!("\"{}\"", "x".repeat(500));
    server.admin.publish("api", 1);
    connect("alice").publish("alice.a", [&data; 3]);
    let mut bob = connect("bob");
    for number in 0..20 {
        bob.publish(&format!("bob.{}", number % 6), [&data; 10]);
    }
    let held = |channel: &str| {
        let history = server.admin.get(&format!("/api/channels/{channel}/history")).json();
        history["messages"].as_array().expect("a list").len()
    };
    assert_eq!((held("api"), held("alice.a")), (1, 3));
}

#[test]
fn commands_beyond_the_rate_are_refused() {
    let server = RunningServer::with(&["limits.commands_per_second=1"]);
    let mut client = server.client();
    let unsubscribe = r#"{"id":1,"unsubscribe":{"channel":"a"}}"#;
    assert_eq!(client.request(unsubscribe), json!({"id": 1, "ok": {}}));
    assert_refused(&mut client, unsubscribe, "rate_limited");
    assert_eq!(
        client.request(r#"{"id":2,"ack":{"seq":0}}"#),
        json!({"id": 2, "ok": {}}),
        "acks do not count"
    );
    let_pass(Duration::from_secs(2));
    assert_eq!(client.request(unsubscribe), json!({"id": 1, "ok": {}}));
}

#[test]
fn a_flood_ends_the_session() {
    let server = RunningServer::with(&["limits.commands_per_second=1"]);
    let (mut client, hello) = RawClient::greeted(server.public, "");
    client.send(&masked(TEXT, br#"{"id":1,"unsubscribe":{"channel":"a"}}"#).repeat(50));
    assert_eq!(client.text_message(), r#"{"reply":{"id":1,"ok":{}}}"#);
    let line = client.text_message();
    assert!(line.starts_with(r#"{"reply":{"id":1,"error":{"code":"rate_limited","message":""#), "{line}");
    let mut replies = 2;
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
    server.logs.await_lifecycle(&hello.session, &[("opened", "connect"), ("closed", "limit")]);
    assert!(!server.resume(&hello.resume).hello.recovered);
}

#[test]
fn only_white_space_between_tokens_is_removed_from_data() {
    let server = RunningServer::with(&[]);
    let (mut client, _) = subscriber(&server);
    let mut publisher = server.client();
    let data =
        "\r\n{ \"a b\" :\t[ 1.50 , -0e+1,  \"x\\\" \\\\\" ,\n\" \\n\u{2003}\\u00e9 \" ] , \"a b\":null }\n";
    publisher.publish("news", [data]);
    assert_eq!(
        client.text_message(),
        "{\"message\":{\"seq\":1,\"channel\":\"news\",\"offset\":1,\"data\":\
         {\"a b\":[1.50,-0e+1,\"x\\\" \\\\\",\" \\n\u{2003}\\u00e9 \"],\"a b\":null}}}"
    );
}

#[test]
fn expired_messages_and_unused_channels_are_removed() {
    let server = RunningServer::with(&[IN_MEMORY, "channel.history_age=500ms"]);
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
    assert_ne!(publisher.subscribe("news"), epoch, "the log has a new epoch");
}

#[test]
fn ended_session_releases_its_channels() {
    let server = RunningServer::with(&[IN_MEMORY, "session.reconnect_window=300ms"]);
    let mut client = server.client();
    client.subscribe("a");
    let mut other = server.client();
    other.subscribe("b");
    assert_eq!(server.admin.metrics().value("encke_channels"), 2.0);
    other.send(r#"{"close":{}}"#);
    until("the first channel is removed", || server.admin.metrics().value("encke_channels") == 1.0);
    drop(client);
    until("the second channel is removed", || server.admin.metrics().value("encke_channels") == 0.0);
}

#[test]
fn total_size_of_all_logs_is_limited() {
    const TOTAL: f64 = 262_144.0;
    let server = RunningServer::with(&[
        IN_MEMORY,
        "channel.history_bytes=128KiB",
        "channel.history_total_bytes=256KiB",
        "limits.commands_per_second=0",
    ]);
    let (mut early, epoch) = subscriber(&server);
    let mut publisher = server.client();
    publisher.publish("news", [1]);
    assert_eq!(early.text_message(), message(1, 1));
    let old = publisher.request(r#"{"id":1,"publish":{"channel":"old","data":1}}"#)["ok"]["epoch"].clone();
    let long = format!("\"{}\"", "x".repeat(10_000));
    for round in 0..10 {
        for channel in ["a", "b", "c", "d"] {
            publisher.publish(channel, [&long, &long, &long]);
            let held = server.admin.metrics().value("encke_log_bytes");
            assert!(held <= TOTAL, "round {round}: {held}");
        }
    }
    let held = server.admin.metrics().value("encke_log_bytes");
    assert!(held > TOTAL - 11_000.0, "no more is evicted than necessary: {held}");
    // The oldest message of all logs was evicted first.
    let (mut late, reply) = since(&server, &epoch, 0);
    assert_eq!(reply, subscribed(&epoch, 1, false));
    let gap = format!(r#"{{"gap":{{"seq":1,"channel":"news","epoch":"{epoch}","from":1,"to":1}}}}"#);
    assert_eq!(late.text_message(), gap);
    let again = publisher.request(r#"{"id":1,"publish":{"channel":"old","data":1}}"#);
    assert_eq!(again["ok"]["offset"], 1);
    assert_ne!(again["ok"]["epoch"], old, "the channel was removed and created again");
}

#[test]
fn message_of_maximum_size_reaches_a_stock_client() {
    let server = RunningServer::with(&[]);
    let mut client = server.client();
    client.subscribe("news");
    let long = format!("\"{}\"", "x".repeat(65_000));
    server.client().publish("news", [&long]);
    assert_eq!(client.object()["message"]["data"].as_str().map(str::len), Some(65_000));
    assert_eq!(client.next_within(Duration::ZERO), None);
}
