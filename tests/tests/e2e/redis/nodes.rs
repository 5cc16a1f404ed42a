use std::time::{Duration, Instant};

use encke_tests::redis::Redis;
use encke_tests::tokens::{SECRET, unix_ms};
use encke_tests::waiting::until;
use encke_tests::{RawClient, RunningServer};
use serde_json::{Value, json};

use super::{
    assert_message, assert_not_opened, assert_unavailable, exec, keys_of_news, launch, launch_at, node,
    query, subscribe_since, subscribers_with_three_messages,
};

/// Messages from the feed, from the log and by a pattern have the same user and time. A message without a
/// user is like those that earlier versions wrote. Each namespace has its own limits in Redis.
#[test]
fn users_times_and_publish_keys_are_the_same_on_all_servers() {
    const HOSTILE: &str = "a b\"\\ 1:2 \u{e9}";
    let redis = Redis::start();
    let rules = "namespace=[{prefix='/news', at_ms=true, history_age='1h', history_messages=1000}]";
    let start = || launch(&redis).set(rules).set(&format!("auth.secret={SECRET}")).start();
    let nodes = [start(), start()];
    let mut from_feed = nodes[1].client_of("x");
    from_feed.subscribe("/news");
    let mut by_pattern = nodes[1].client_of("y");
    by_pattern.subscribe("/*");

    nodes[0].client_of("alice").publish("/news", [1]);
    let keyed = r#"{"id":1,"publish":{"channel":"/news","data":2,"key":"k"}}"#;
    let replies = nodes.each_ref().map(|node| node.client_of(HOSTILE).request(keyed));
    assert_eq!((&replies[0]["ok"]["offset"], &replies[0]), (&json!(2), &replies[1]));
    let keyed = r#"{"channel":"/news","data":3,"key":"k"}"#;
    let replies = nodes.each_ref().map(|node| node.admin.post("/api/publish", keyed).json());
    // The API is another publisher.
    assert_eq!((&replies[0]["offset"], &replies[0]), (&json!(3), &replies[1]));
    let published = |node: &RunningServer| node.admin.metrics().value("encke_messages_published_total");
    assert_eq!(nodes.each_ref().map(published), [3.0, 0.0], "a repeat is not counted");

    // A server without subscribers reads the log.
    let third = start();
    let mut from_log = third.client_of("z");
    from_log.request(r#"{"id":1,"subscribe":{"channel":"/news","last":3}}"#);
    let users = [json!("alice"), json!(HOSTILE), Value::Null];
    let received = [from_feed, by_pattern, from_log].map(|mut client| {
        [0, 1, 2].map(|index| {
            let message = client.object()["message"].take();
            assert_eq!((&message["user"], &message["data"]), (&users[index], &json!(index + 1)));
            message["at_ms"].as_u64().expect("a time")
        })
    });
    assert_eq!([received[1], received[2]], [received[0]; 2], "times");
    let history = third.admin.get("/api/channels/%2Fnews/history").json();
    assert_eq!([0, 1, 2].map(|at| history["messages"][at]["user"].clone()), users, "{history}");

    nodes[0].admin.publish("other", 1);
    let mut connection = redis.connect();
    for (channel, age) in [("/news", 3_600_000), ("other", 300_000)] {
        let keys: Vec<String> = query(&mut connection, &["KEYS", &format!("*}}l:{channel}")]);
        let remaining_ms: u64 = query(&mut connection, &["PTTL", &keys[0]]);
        assert!((age - 30_000..=age + age / 8).contains(&remaining_ms), "{channel}: {remaining_ms}");
    }
}

#[test]
fn a_client_continues_on_another_server() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let mut client = nodes[0].client();
    let epoch = client.subscribe("news");
    nodes[0].admin.publish("news", 1);
    assert_message(&mut client, 1, 1);
    drop(client);
    nodes[0].admin.publish_each("news", 2..=4);
    // This server had no subscriber of the channel before.
    let mut client = nodes[1].client();
    let reply = subscribe_since(&mut client, &epoch, 1);
    assert_eq!(reply["ok"], json!({"channel": "news", "epoch": epoch, "offset": 4, "recovered": true}));
    assert_message(&mut client, 2, 2);
    for count in [2, 100] {
        for node in &nodes {
            let mut client = node.client();
            let subscribe = json!({"id": 1, "subscribe": {"channel": "news", "last": count}});
            let reply = client.request(&subscribe);
            assert_eq!((&reply["ok"]["offset"], &reply["ok"]["recovered"]), (&json!(4), &Value::Null));
            (5 - count.min(4)..=4).for_each(|offset| assert_message(&mut client, offset, offset));
        }
    }
    for (query, expected) in [
        ("since=1", &[2, 3, 4][..]),
        ("before=9", &[1, 2, 3, 4]),
        ("before=9&limit=1", &[4]),
        ("before=2", &[1]),
        ("since=1&before=4", &[2, 3]),
        ("before=0", &[]),
    ] {
        let page = nodes[1].admin.get(&format!("/api/channels/news/history?{query}")).json();
        assert_eq!((&page["epoch"], &page["first"], &page["last"]), (&json!(epoch), &json!(1), &json!(4)));
        let offsets = page["messages"].as_array().expect("a list").iter().map(|message| &message["offset"]);
        assert!(offsets.eq(expected), "{query}: {page}");
    }
    assert_eq!(nodes[1].admin.get("/api/channels/other/history").status, 404);
}

#[test]
fn missing_and_foreign_data_in_redis_do_no_harm() {
    let redis = Redis::start();
    let node = node(&redis);
    let mut client = node.client();
    let epoch = client.subscribe("news");
    let mut connection = redis.connect();
    let [meta, log, feed] = keys_of_news();
    // A message that is missing from the feed is read from the log. It has the current time: otherwise it could
    // be removed, as too old, before it is read.
    let now = unix_ms().to_string();
    exec(&mut connection, &["XADD", &log, "0-1", "t", &now, "d", "\"missed\""]);
    exec(&mut connection, &["HSET", &meta, "offset", "1"]);
    node.admin.publish("news", 2);
    assert_message(&mut client, 1, "missed");
    assert_message(&mut client, 2, 2);
    for stray in
        ["", "x", "e 1", "e 1 2 3", &format!("{epoch} 0 1 1"), &format!("{epoch} 18446744073709551615 1 1")]
    {
        exec(&mut connection, &["PUBLISH", &feed, stray]);
    }
    // Invalid JSON is skipped, in the feed and in the log. Message 5 is missing from both.
    exec(&mut connection, &["PUBLISH", &feed, &format!("{epoch} 3 1 {{no json")]);
    exec(&mut connection, &["XADD", &log, "0-4", "t", &now, "d", "{\"a\":"]);
    exec(&mut connection, &["HSET", &meta, "offset", "5"]);
    node.admin.publish("news", 6);
    // The messages may be reported in one gap or in several.
    let mut last = json!(2);
    while last != 5 {
        let mut gap = client.object()["gap"].take();
        assert_eq!(gap["from"].as_u64(), last.as_u64().map(|last| last + 1), "{gap}");
        last = gap["to"].take();
    }
    assert_message(&mut client, 6, 6);
    let history = node.admin.get("/api/channels/news/history").json();
    assert_eq!(history["messages"].as_array().map(Vec::len), Some(3), "{history}");
    // This key has the wrong type.
    exec(&mut connection, &["SET", "encke:{126}m:odd", "x"]);
    assert_not_opened(&mut client, "odd");
    node.assert_healthy();
}

#[test]
fn unix_socket_password_database_and_prefix_can_be_set() {
    let redis = Redis::with(&["--requirepass", "hunter2"]);
    let launch_on = |database: &str| {
        let launch = launch_at(redis.socket_url()).set("engine.prefix=other:");
        launch.set(&format!("engine.database={database}")).environment("ENCKE_ENGINE__PASSWORD", "hunter2")
    };
    let server = launch_on("3").start();
    let mut client = server.client();
    client.subscribe("/a/*");
    // Redis's publish/subscribe does not distinguish databases.
    launch_on("1").start().admin.publish("/a/b", "other database");
    assert_eq!(server.admin.publish("/a/b", "this database")["offset"], 1);
    assert_message(&mut client, 1, "this database");
    let mut connection = redis.connect();
    exec(&mut connection, &["AUTH", "hunter2"]);
    exec(&mut connection, &["SELECT", "3"]);
    let keys: Vec<String> = query(&mut connection, &["KEYS", "*"]);
    assert!(keys.iter().all(|key| key.starts_with("other:")) && keys.len() == 4, "{keys:?}");
    // With a wrong password, channels are unavailable. The log names the reason, but not the password.
    let wrong = launch(&redis).environment("ENCKE_ENGINE__PASSWORD", "hunter3").start();
    assert_unavailable(&wrong);
    until("the reason is logged", || wrong.logs.text().contains("channels are unavailable"));
    assert!(!wrong.logs.text().contains("hunter"), "{}", wrong.logs.text());
}

/// More subscriptions than a server requests from Redis simultaneously, and more reminders that are due at
/// once than it publishes simultaneously.
#[test]
fn many_subscriptions_and_simultaneous_reminders() {
    const CHANNELS: u64 = 100;
    const REMINDERS: u64 = 1_000;
    // Time after which all reminders are due. On a slow machine, the last ones are due immediately.
    const ALL_DUE_AFTER: Duration = Duration::from_secs(3);
    let redis = Redis::start();
    let server = node(&redis);
    let mut client = server.client();
    for channel in 0..CHANNELS {
        client.send(format!(r#"{{"id":{channel},"subscribe":{{"channel":"c{channel}"}}}}"#));
    }
    for channel in 0..CHANNELS {
        let reply = client.object()["reply"].take();
        assert_eq!((&reply["id"], &reply["ok"]["offset"]), (&json!(channel), &json!(0)), "{reply}");
    }
    let due = Instant::now() + ALL_DUE_AFTER;
    for number in 0..REMINDERS {
        let after = due.saturating_duration_since(Instant::now()).as_millis();
        let publish = json!({"channel": format!("c{}", number % CHANNELS), "data": number});
        let reminder = json!({"after": format!("{after}ms"), "publish": publish});
        let answer = server.admin.put(&format!("/api/reminders/{number}"), &reminder);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let next = |_| client.object()["message"]["data"].as_u64().expect("a number");
    let mut published: Vec<u64> = (0..REMINDERS).map(next).collect();
    published.sort_unstable();
    assert_eq!(published, (0..REMINDERS).collect::<Vec<_>>());
    // The client may receive a message before the server has the engine's reply.
    until("all reminders are counted", || {
        let metrics = server.admin.metrics();
        metrics.value(r#"encke_reminders_due_total{outcome="published"}"#) == REMINDERS as f64
    });
}

/// The client has received the messages from another server.
#[test]
fn a_server_that_lags_behind_redis_reads_before_it_answers() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let (_subscribers, epoch) = subscribers_with_three_messages(&nodes);
    for round in 1..=20 {
        let last = 3 + 10 * round;
        let mut late = nodes[1].while_stopped(|| {
            nodes[0].admin.publish_each("news", last - 9..=last);
            let mut late = RawClient::connect(nodes[1].public);
            late.request_upgrade("");
            let since = json!({"epoch": epoch, "offset": last});
            late.text(&json!({"id": 1, "subscribe": {"channel": "news", "since": since}}).to_string());
            late
        });
        late.await_upgrade();
        late.hello();
        assert_eq!(late.object()["reply"]["ok"]["recovered"], true, "round {round}");
    }
}
