use std::time::Duration;

use encke_tests::redis::Redis;
use encke_tests::server::run_to_end;
use encke_tests::tokens::{SECRET, sign};
use encke_tests::waiting::{eventually_within, until};
use encke_tests::{Client, RunningServer};
use redis::Connection;
use serde_json::{Value, json};

use super::{keys_of_news, launch, node};

/// Asserts that the next message has this offset and these data.
#[track_caller]
pub(super) fn assert_message(client: &mut Client, offset: u64, data: &Value) {
    let object = client.object();
    let message = &object["message"];
    assert_eq!((&message["offset"], &message["data"]), (&json!(offset), data), "{object}");
}

/// Asserts that all messages up to the one with the data `last` arrive in order and without a gap. Returns
/// the data of all of them.
#[track_caller]
pub(super) fn assert_all_up_to(client: &mut Client, mut offset: u64, last: &Value) -> Vec<Value> {
    let mut all = Vec::new();
    while all.last() != Some(last) {
        offset += 1;
        let mut object = client.object();
        assert_eq!(object["message"]["offset"], offset, "{object}");
        all.push(object["message"]["data"].take());
    }
    all
}

/// Connects a client to each server. All clients receive messages 1 to 3 of a channel. Returns the clients
/// and the epochs that they received.
pub(super) fn subscribers_with_three_messages(nodes: &[RunningServer; 2]) -> ([Client; 2], [String; 2]) {
    let mut subscribers = nodes.each_ref().map(RunningServer::client);
    let epochs = subscribers.each_mut().map(|subscriber| subscriber.subscribe("news"));
    for offset in 1..=3 {
        nodes[0].admin.publish("news", offset);
    }
    for subscriber in &mut subscribers {
        (1..=3).for_each(|offset| assert_message(subscriber, offset, &json!(offset)));
    }
    (subscribers, epochs)
}

/// Executes a Redis command.
#[track_caller]
pub(super) fn exec(connection: &mut Connection, command: &[&str]) {
    let mut all = redis::cmd(command[0]);
    command[1..].iter().for_each(|argument| _ = all.arg(argument));
    all.exec(connection).unwrap_or_else(|error| panic!("{command:?}: {error}"));
}

#[test]
fn messages_reach_all_servers() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let mut subscribers = nodes.each_ref().map(RunningServer::client);
    let epochs = subscribers.each_mut().map(|subscriber| subscriber.subscribe("news"));
    assert_eq!(epochs[0], epochs[1]);
    for (offset, node) in (1..=10).zip(nodes.iter().cycle()) {
        let published = node.admin.publish("news", offset);
        assert_eq!(published, json!({"offset": offset, "epoch": epochs[0]}));
    }
    for subscriber in &mut subscribers {
        (1..=10).for_each(|offset| assert_message(subscriber, offset, &json!(offset)));
    }
    // A publisher receives its own message if it is subscribed.
    subscribers[0].send(r#"{"publish":{"channel":"news","data":"me"}}"#);
    subscribers.iter_mut().for_each(|subscriber| assert_message(subscriber, 11, &json!("me")));
}

/// Messages from the feed and from the log name the user. The third message is anonymous, as are all messages
/// that earlier versions wrote.
#[test]
fn messages_keep_their_users_on_all_servers() {
    const HOSTILE: &str = "a b\"\\\u{1} 1:2 \u{e9}";
    let redis = Redis::start();
    let nodes = [(); 2].map(|()| launch(&redis).set(&format!("auth.secret={SECRET}")).start());
    let connect = |node: &RunningServer, user: &str| {
        let claims = json!({"sub": user, "channels": {"*": ["subscribe", "publish"]}});
        Client::connect(node.public, &format!("token={}", sign(&claims, SECRET)))
    };
    let mut from_feed = [connect(&nodes[0], "x"), connect(&nodes[1], "y")];
    from_feed.iter_mut().for_each(|client| _ = client.subscribe("/news"));
    let mut by_pattern = connect(&nodes[1], "z");
    by_pattern.subscribe("/*");
    connect(&nodes[0], "alice").publish("/news", [1]);
    let keyed = r#"{"id":1,"publish":{"channel":"/news","data":2,"key":"k"}}"#;
    for _ in 0..2 {
        assert_eq!(connect(&nodes[1], HOSTILE).request(keyed)["ok"]["offset"], 2);
    }
    nodes[0].admin.publish("/news", 3);
    let users = [json!("alice"), json!(HOSTILE), Value::Null];
    let assert_users = |client: &mut Client| {
        let received = [(); 3].map(|()| client.object()["message"]["user"].take());
        assert_eq!(received, users);
    };
    from_feed.iter_mut().for_each(assert_users);
    assert_users(&mut by_pattern);
    // A server without subscribers reads the log.
    let third = launch(&redis).set(&format!("auth.secret={SECRET}")).start();
    let mut late = connect(&third, "w");
    late.request(r#"{"id":1,"subscribe":{"channel":"/news","last":3}}"#);
    assert_users(&mut late);
    let history = third.admin.get("/api/channels/%2Fnews/history").json();
    let shown = [0, 1, 2].map(|at| history["messages"][at]["user"].clone());
    assert_eq!(shown, users, "{history}");
}

/// The time is the same in the feed and in the log, and each namespace has its own limits in Redis.
#[test]
fn namespaces_apply_on_all_servers() {
    let redis = Redis::start();
    let rules = "namespace=[{prefix='chat.', at_ms=true, history_age='1h', history_messages=1000}]";
    let nodes = [(); 2].map(|()| launch(&redis).set(rules).start());
    let mut from_feed = nodes[1].client();
    from_feed.subscribe("chat.a");
    nodes[0].admin.publish("chat.a", 1);
    let at = from_feed.object()["message"]["at_ms"].take();
    assert!(at.is_u64(), "{at}");
    let mut from_log = nodes[0].client();
    from_log.request(r#"{"id":1,"subscribe":{"channel":"chat.a","last":1}}"#);
    assert_eq!(from_log.object()["message"]["at_ms"], at);
    nodes[0].admin.publish("news", 1);
    let mut connection = redis.connect();
    let mut remaining_ms = |channel: &str| -> u64 {
        let found: Vec<String> =
            redis::cmd("KEYS").arg(format!("*}}l:{channel}")).query(&mut connection).expect("names");
        redis::cmd("PTTL").arg(&found[0]).query(&mut connection).expect("a time")
    };
    let hour = 3_600_000;
    let age = 300_000;
    let (own, other) = (remaining_ms("chat.a"), remaining_ms("news"));
    assert!((hour..=hour + hour / 8).contains(&own), "{own}");
    assert!((age..=age + age / 8).contains(&other), "{other}");
}

/// The history in Redis is used even if this server has had no subscriber of the channel.
#[test]
fn last_is_the_same_on_all_servers() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    (1..=10).for_each(|offset| _ = nodes[0].admin.publish("news", offset));
    for count in [4, 2, 100] {
        for node in &nodes {
            let mut client = node.client();
            let reply = client
                .request(&json!({"id": 1, "subscribe": {"channel": "news", "last": count}}).to_string());
            assert_eq!((&reply["ok"]["offset"], &reply["ok"]["recovered"]), (&json!(10), &Value::Null));
            (11 - count.min(10)..=10).for_each(|offset| assert_message(&mut client, offset, &json!(offset)));
        }
    }
}

#[test]
fn a_repeat_on_another_server_gets_the_first_reply() {
    let redis = Redis::start();
    let secret = format!("auth.secret={SECRET}");
    let nodes = [(); 2].map(|()| launch(&redis).set(&secret).start());
    let token = sign(&json!({"sub": "alice", "channels": {"*": ["publish"]}}), SECRET);
    let mut of_user = nodes.each_ref().map(|node| Client::connect(node.public, &format!("token={token}")));
    let first = of_user[0].request(r#"{"id":1,"publish":{"channel":"news","data":1,"key":"k"}}"#);
    assert_eq!(first["ok"]["offset"], 1, "{first}");
    let again = of_user[1].request(r#"{"id":1,"publish":{"channel":"news","data":2,"key":"k"}}"#);
    assert_eq!(again, first);
    let of_api = nodes
        .each_ref()
        .map(|node| node.admin.post("/api/publish", r#"{"channel":"news","data":3,"key":"k"}"#).json());
    assert_eq!(of_api[0]["offset"], 2, "the API is another publisher");
    assert_eq!(of_api[0], of_api[1]);
    let history = nodes[1].admin.get("/api/channels/news/history").json();
    let data = history["messages"].as_array().expect("a list").iter().map(|message| &message["data"]);
    assert_eq!(data.collect::<Vec<_>>(), [1, 3]);
    let published = |node: &RunningServer| node.admin.metrics().value("encke_messages_published_total");
    assert_eq!(nodes.each_ref().map(published), [2.0, 0.0], "a repeat is not counted");
}

#[test]
fn publishes_of_one_connection_keep_their_order() {
    const MESSAGES: u64 = 5000;
    let redis = Redis::start();
    let node = launch(&redis)
        .set("limits.commands_per_second=0")
        .set("limits.frames_per_second=0")
        .set("channel.history_messages=5000")
        .start();
    let mut subscriber = node.client();
    subscriber.subscribe("news");
    assert_eq!(node.client().publish("news", 1..=MESSAGES), MESSAGES);
    (1..=MESSAGES).for_each(|offset| assert_message(&mut subscriber, offset, &json!(offset)));
}

#[test]
fn a_client_continues_on_another_server() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let mut client = nodes[0].client();
    let epoch = client.subscribe("news");
    nodes[0].admin.publish("news", 1);
    assert_message(&mut client, 1, &json!(1));
    drop(client);
    nodes[0].admin.publish("news", 2);
    // This server had no subscriber of the channel before.
    let since = json!({"epoch": epoch, "offset": 1});
    let mut client = nodes[1].client();
    let subscribe = json!({"id": 1, "subscribe": {"channel": "news", "since": since}});
    let reply = client.request(&subscribe.to_string());
    let expected = json!({"channel": "news", "epoch": epoch, "offset": 2, "recovered": true});
    assert_eq!(reply["ok"], expected);
    assert_message(&mut client, 2, &json!(2));
    let history = nodes[1].admin.get("/api/channels/news/history?since=1").json();
    assert_eq!(
        (&history["epoch"], &history["first"], &history["last"]),
        (&json!(epoch), &json!(1), &json!(2))
    );
    assert_eq!(
        (history["messages"].as_array().map(Vec::len), &history["messages"][0]["data"]),
        (Some(1), &json!(2))
    );
    for (query, expected) in [
        ("before=9", &[1, 2][..]),
        ("before=9&limit=1", &[2]),
        ("before=2", &[1]),
        ("since=1&before=9", &[2]),
        ("before=0", &[]),
    ] {
        let page = nodes[1].admin.get(&format!("/api/channels/news/history?{query}")).json();
        let offsets = page["messages"].as_array().expect("a list").iter().map(|message| &message["offset"]);
        assert!(offsets.eq(expected), "{query}: {page}");
    }
    assert_eq!(nodes[1].admin.get("/api/channels/other/history").status, 404);
}

#[test]
fn many_subscriptions_on_several_servers() {
    const CHANNELS: usize = 100;
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let mut subscribers = nodes.each_ref().map(RunningServer::client);
    // Each client has more subscriptions than a server requests from Redis simultaneously on one connection.
    for subscriber in &mut subscribers {
        for channel in 0..CHANNELS {
            subscriber.send(&format!(r#"{{"id":{channel},"subscribe":{{"channel":"c{channel}"}}}}"#));
        }
        for channel in 0..CHANNELS {
            let reply = subscriber.object();
            assert_eq!(
                (&reply["reply"]["id"], &reply["reply"]["ok"]["offset"]),
                (&json!(channel), &json!(0)),
                "{reply}"
            );
        }
    }
    let channels: Vec<_> = (0..CHANNELS).map(|channel| format!("c{channel}")).collect();
    nodes[0].admin.post("/api/broadcast", &json!({"channels": channels, "data": 1}).to_string());
    for subscriber in &mut subscribers {
        let mut received: Vec<_> =
            channels.iter().map(|_| subscriber.object()["message"]["channel"].clone()).collect();
        received.sort_by_key(ToString::to_string);
        let mut expected: Vec<_> = channels.iter().map(|channel| json!(channel)).collect();
        expected.sort_by_key(ToString::to_string);
        assert_eq!(received, expected);
    }
}

#[test]
fn a_message_missing_from_the_feed_is_read_from_the_log() {
    let redis = Redis::start();
    let node = node(&redis);
    let mut client = node.client();
    client.subscribe("news");
    node.admin.publish("news", 1);
    assert_message(&mut client, 1, &json!(1));
    let mut connection = redis.connect();
    let [meta, log, _] = keys_of_news();
    exec(&mut connection, &["XADD", &log, "0-2", "t", "1", "d", "\"missed\""]);
    exec(&mut connection, &["HSET", &meta, "offset", "2"]);
    node.admin.publish("news", 3);
    assert_message(&mut client, 2, &json!("missed"));
    assert_message(&mut client, 3, &json!(3));
    // A message that is missing from the log as well is reported as a gap.
    exec(&mut connection, &["HSET", &meta, "offset", "5"]);
    node.admin.publish("news", 6);
    let gap = &client.object()["gap"];
    assert_eq!((&gap["from"], &gap["to"]), (&json!(4), &json!(5)), "{gap}");
    assert_message(&mut client, 6, &json!(6));
}

#[test]
fn foreign_data_in_redis_does_no_harm() {
    let redis = Redis::start();
    let node = node(&redis);
    let mut client = node.client();
    let epoch = client.subscribe("news");
    let mut connection = redis.connect();
    let [meta, log, feed] = keys_of_news();
    for stray in
        ["", "x", "e 1", "e 1 2 3", &format!("{epoch} 0 1 1"), &format!("{epoch} 18446744073709551615 1 1")]
    {
        exec(&mut connection, &["PUBLISH", &feed, stray]);
    }
    // Invalid JSON is skipped, in the feed and in the log.
    exec(&mut connection, &["HSET", &meta, "offset", "1"]);
    exec(&mut connection, &["PUBLISH", &feed, &format!("{epoch} 1 1 {{no json")]);
    exec(&mut connection, &["XADD", &log, "0-2", "t", "1", "d", "{\"a\":"]);
    exec(&mut connection, &["HSET", &meta, "offset", "2"]);
    node.admin.publish("news", 3);
    // The messages may be reported in one gap or in two.
    let mut last = json!(0);
    while last != 2 {
        let gap = client.object()["gap"].take();
        assert_eq!(gap["from"].as_u64(), last.as_u64().map(|last| last + 1), "{gap}");
        last = gap["to"].clone();
    }
    assert_message(&mut client, 3, &json!(3));
    let history = node.admin.get("/api/channels/news/history").json();
    assert_eq!(history["messages"].as_array().map(Vec::len), Some(1), "{history}");
    // This key has the wrong type.
    exec(&mut connection, &["SET", "encke:{126}m:odd", "x"]);
    let reply = client.request(r#"{"id":1,"subscribe":{"channel":"odd"}}"#);
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    node.assert_healthy();
}

#[test]
fn a_redis_with_key_eviction_is_refused() {
    let redis = Redis::with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]);
    let url = format!("engine.url={}", redis.url());
    let output = run_to_end(
        &["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--set", "engine.kind=redis", "--set", &url],
        &[],
    );
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && stderr.contains("engine.allow_eviction"), "{stderr}");
    let server = launch(&redis).set("engine.allow_eviction=true").start();
    assert_eq!(server.admin.publish("news", 1)["offset"], 1);
}

#[test]
fn unix_socket_password_database_and_prefix_can_be_set() {
    let redis = Redis::with(&["--requirepass", "hunter2"]);
    let settings = ["engine.kind=redis", &format!("engine.url={}", redis.socket_url()), "engine.database=3"];
    let server = encke_tests::Launch::with(&settings)
        .set("engine.prefix=other:")
        .environment("ENCKE_ENGINE__PASSWORD", "hunter2")
        .start();
    assert_eq!(server.admin.publish("news", 1)["offset"], 1);
    let mut connection = redis.connect_with("hunter2");
    exec(&mut connection, &["SELECT", "3"]);
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).expect("keys");
    assert!(keys.iter().all(|key| key.starts_with("other:")) && keys.len() == 4, "{keys:?}");
    // With a wrong password, channels are unavailable. The log names the reason, but not the password.
    let wrong = launch(&redis).environment("ENCKE_ENGINE__PASSWORD", "hunter3").start();
    let answer = wrong.admin.post("/api/publish", r#"{"channel":"news","data":1}"#);
    assert_eq!((answer.status, &*answer.error_code()), (503, "unavailable"), "{answer:?}");
    until("the reason is logged", || wrong.logs.text().contains("channels are unavailable"));
    assert!(!wrong.logs.text().contains("hunter"), "{}", wrong.logs.text());
}

#[test]
fn redis_subscriptions_end_some_time_after_the_last_subscriber() {
    let redis = Redis::start();
    let node = node(&redis);
    let mut client = node.client();
    let epoch = client.subscribe("news");
    client.subscribe("/a/*");
    node.admin.publish("news", 1);
    assert_message(&mut client, 1, &json!(1));
    let mut connection = redis.connect();
    let [.., feed] = keys_of_news();
    let mut listeners = || -> (u64, u64) {
        let (_, count): (String, u64) =
            redis::cmd("PUBSUB").arg(&["NUMSUB", &feed]).query(&mut connection).expect("a number");
        (count, redis::cmd("PUBSUB").arg("NUMPAT").query(&mut connection).expect("a number"))
    };
    assert_eq!(listeners(), (1, 1));
    client.request(r#"{"id":1,"unsubscribe":{"channel":"news"}}"#);
    client.request(r#"{"id":2,"unsubscribe":{"channel":"/a/*"}}"#);
    // A server unsubscribes after 30 s, plus the interval between checks.
    eventually_within(Duration::from_secs(60), "the server unsubscribes from the feeds", || {
        (listeners() == (0, 0)).then_some(())
    });
    until("the local log is removed", || node.admin.metrics().value("encke_channels") == 0.0);
    node.admin.publish("news", 2);
    // The first client has been disconnected, because it did not answer pings in the meantime.
    let mut client = node.client();
    let reply = client.request(r#"{"id":2,"subscribe":{"channel":"news"}}"#);
    assert_eq!(reply["ok"], json!({"channel": "news", "epoch": epoch, "offset": 2}));
    node.admin.publish("news", 3);
    assert_message(&mut client, 3, &json!(3));
    let metrics = node.admin.metrics();
    assert_eq!(metrics.value("encke_engine_up"), 1.0);
    assert_eq!(metrics.value("encke_engine_connects_total"), 1.0);
    assert_eq!(metrics.value("encke_engine_publish_seconds_count"), 3.0);
    assert!(metrics.value("encke_engine_feed_lag_seconds_count") >= 1.0);
}
