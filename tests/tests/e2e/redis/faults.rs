use std::time::Duration;

use encke_tests::raw::{CLOSE, PING, PONG, TEXT, masked};
use encke_tests::redis::Redis;
use encke_tests::waiting::{eventually_within, until};
use encke_tests::{Client, RawClient, RunningServer};
use serde_json::{Value, json};

use super::nodes::{assert_message, subscribers_with_three_messages};
use super::{keys_of_news, launch, node};

/// How long failure detection or recovery may take. A server notices within two probes that Redis does not
/// respond, and reconnects within a second after Redis responds again.
pub(super) const DETECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until messages can be published again. Returns the response to the first publish that succeeds.
#[track_caller]
pub(super) fn await_published(server: &RunningServer, data: &Value) -> Value {
    let body = json!({"channel": "news", "data": data}).to_string();
    eventually_within(DETECTION_TIMEOUT, "the message is published", || {
        let answer = server.admin.post("/api/publish", &body);
        assert!(answer.status == 200 || answer.status == 503, "{answer:?}");
        (answer.status == 200).then(|| answer.json())
    })
}

#[track_caller]
fn next_object(client: &mut Client) -> Value {
    client.object()
}

#[test]
fn an_empty_redis_causes_gaps() {
    let mut redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let (mut subscribers, epochs) = subscribers_with_three_messages(&nodes);
    redis.kill();
    until("the servers notice the failure", || {
        nodes.iter().all(|node| node.admin.get("/readyz").status == 503)
    });
    assert_eq!(nodes[0].admin.get("/readyz").json(), json!({"status": "engine_down"}));
    for node in &nodes {
        assert_eq!(node.admin.get("/healthz").status, 200);
        let reply = node.client().request(r#"{"id":1,"publish":{"channel":"news","data":1}}"#);
        assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    }
    // Clients can still subscribe to channels that have subscribers on this server. Other channels cannot be
    // opened.
    let mut late = nodes[0].client();
    assert_eq!(late.request(r#"{"id":1,"subscribe":{"channel":"news"}}"#)["ok"]["offset"], 3);
    let reply = late.request(r#"{"id":2,"subscribe":{"channel":"sports"}}"#);
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    redis.restart();
    let published = await_published(&nodes[1], &json!("again"));
    assert_ne!(published["epoch"], json!(epochs[0]));
    for subscriber in subscribers.iter_mut().chain([&mut late]) {
        let gap = next_object(subscriber);
        assert_eq!(gap["gap"]["epoch"], published["epoch"], "{gap}");
        assert_eq!(gap["gap"].get("from"), None, "{gap}");
        assert_message(subscriber, 1, &json!("again"));
    }
    until("the server is ready", || nodes.iter().all(|node| node.admin.get("/readyz").status == 200));
}

#[test]
fn a_frozen_redis_loses_nothing() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let mut subscriber = nodes[0].client();
    subscriber.subscribe("news");
    nodes[1].admin.publish("news", 1);
    assert_message(&mut subscriber, 1, &json!(1));
    redis.process().while_stopped(|| {
        let answer = nodes[1].admin.post("/api/publish", r#"{"channel":"news","data":"perhaps"}"#);
        assert_eq!((answer.status, &*answer.error_code()), (503, "outcome_unknown"), "{answer:?}");
        until("the servers notice the failure", || {
            let answer = nodes[1].admin.post("/api/publish", r#"{"channel":"news","data":"no"}"#);
            answer.error_code() == "unavailable"
        });
    });
    await_published(&nodes[1], &json!("after"));
    // Messages published in the meantime arrive once and in order.
    let mut offset = 1;
    loop {
        let object = next_object(&mut subscriber);
        assert_eq!(object["message"]["offset"], offset + 1, "{object}");
        offset += 1;
        if object["message"]["data"] == "after" {
            break;
        }
    }
}

#[test]
fn broken_connections_lose_nothing() {
    const MESSAGES: u64 = 300;
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let mut subscriber = nodes[0].client();
    subscriber.subscribe("news");
    let mut connection = redis.connect();
    let mut published = 0;
    for number in 1..=MESSAGES {
        if number % 50 == 0 {
            for kind in ["pubsub", "normal"] {
                redis::cmd("CLIENT")
                    .arg(&["KILL", "TYPE", kind])
                    .exec(&mut connection)
                    .expect("the connections are killed");
            }
        }
        let answer =
            nodes[1].admin.post("/api/publish", &json!({"channel": "news", "data": number}).to_string());
        match answer.status {
            200 => published = answer.json()["offset"].as_u64().expect("an offset"),
            // The publish failed because its connection was killed.
            503 => {
                published = await_published(&nodes[1], &json!(number))["offset"].as_u64().expect("an offset")
            }
            status => panic!("{status}: {answer:?}"),
        }
    }
    assert!(published >= MESSAGES);
    let (mut last, mut offset) = (0, 0);
    while offset < published {
        let object = next_object(&mut subscriber);
        assert_eq!(object["message"]["offset"], offset + 1, "{object}");
        let number = object["message"]["data"].as_u64().expect("a number");
        // A publish whose reply was lost may have taken effect, and then appears twice.
        assert!(number == last + 1 || number == last, "{object} after {last}");
        (last, offset) = (number, offset + 1);
    }
    assert_eq!(last, MESSAGES);
}

/// Removes messages 4 and 5, as if a lagging replica had been promoted, and keeps all connections.
#[track_caller]
fn lose_newest_messages(redis: &Redis) {
    let mut connection = redis.connect();
    let [meta, log, _] = keys_of_news();
    let mut pipeline = redis::pipe();
    pipeline.atomic();
    pipeline.cmd("XDEL").arg(&log).arg(&["0-4", "0-5"]).cmd("XSETID").arg(&log).arg("0-3");
    pipeline.cmd("HSET").arg(&meta).arg(&["offset", "3"]);
    pipeline.cmd("DEBUG").arg("CHANGE-REPL-ID");
    pipeline.exec(&mut connection).expect("the newest messages are lost");
}

/// Simulates a failover to a lagging replica: the newest messages are missing, and their offsets are reused.
#[test]
fn only_clients_that_saw_lost_messages_get_a_gap() {
    let redis = Redis::with(&["--enable-debug-command", "yes"]);
    let node = node(&redis);
    let mut saw_all = node.client();
    let epoch = saw_all.subscribe("news");
    let mut left_early = node.client();
    left_early.subscribe("news");
    for offset in 1..=3 {
        node.admin.publish("news", offset);
    }
    (1..=3).for_each(|offset| assert_message(&mut left_early, offset, &json!(offset)));
    let hello = left_early.drop_connection();
    node.await_phase(&hello.session, "suspended");
    for offset in 4..=5 {
        node.admin.publish("news", offset);
    }
    (1..=5).for_each(|offset| assert_message(&mut saw_all, offset, &json!(offset)));

    lose_newest_messages(&redis);
    let gap = eventually_within(DETECTION_TIMEOUT, "the server notices the loss", || {
        saw_all.next_within(Duration::from_millis(100))
    });
    drop(gap);
    let published = node.admin.publish("news", "four");
    assert_eq!(published["offset"], 4);
    assert_ne!(published["epoch"], json!(epoch));
    assert_message(&mut saw_all, 4, &json!("four"));
    let mut resumed = Client::connect(node.public, &format!("resume={}&seq=3", hello.resume));
    assert!(resumed.hello.recovered);
    assert_message(&mut resumed, 4, &json!("four"));
    // The same holds for clients that give their position in a new session.
    for (offset, recovered) in [(3, true), (5, false)] {
        let since = json!({"epoch": epoch, "offset": offset});
        let subscribe = json!({"id": 1, "subscribe": {"channel": "news", "since": since}});
        let reply = node.client().request(&subscribe.to_string());
        assert_eq!(reply["ok"]["recovered"], recovered, "{reply}");
    }
}

/// A server that does not publish also notices that Redis has lost its scripts.
#[test]
fn lost_scripts_are_loaded_again() {
    let redis = Redis::start();
    let node = node(&redis);
    let mut client = node.client();
    client.subscribe("news");
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut redis.connect()).expect("Redis is flushed");
    let mut id = 0;
    until("another channel can be subscribed to", || {
        id += 1;
        let reply = client.request(&json!({"id": id, "subscribe": {"channel": "sports"}}).to_string());
        assert!(reply["ok"].is_object() || reply["error"]["code"] == "unavailable", "{reply}");
        reply["ok"].is_object()
    });
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut redis.connect()).expect("Redis is flushed");
    // No client sends anything. The server notices the loss because renewing its lease fails.
    let connects = || node.admin.metrics().value("encke_engine_connects_total");
    eventually_within(DETECTION_TIMEOUT, "the server notices the loss", || (connects() >= 3.0).then_some(()));
}

/// The generation's key may be lost while servers are connected.
#[test]
fn lost_messages_are_detected_even_if_the_generation_was_lost() {
    let redis = Redis::with(&["--enable-debug-command", "yes"]);
    let node = node(&redis);
    redis::cmd("FLUSHALL").exec(&mut redis.connect()).expect("Redis is flushed");
    let mut saw_all = node.client();
    let epoch = saw_all.subscribe("news");
    for offset in 1..=5 {
        node.admin.publish("news", offset);
    }
    (1..=5).for_each(|offset| assert_message(&mut saw_all, offset, &json!(offset)));
    lose_newest_messages(&redis);
    let published = await_published(&node, &json!("again"));
    assert_ne!(published["epoch"], json!(epoch));
    let gap = next_object(&mut saw_all);
    assert!(gap["gap"].is_object(), "{gap}");
    assert_message(&mut saw_all, 4, &json!("again"));
}

/// The first server to publish must not reuse offsets, even if no server has noticed the failover yet.
#[test]
fn offsets_are_not_reused_on_connections_that_survive_a_failover() {
    let redis = Redis::with(&["--enable-debug-command", "yes"]);
    let nodes = [node(&redis), node(&redis)];
    let mut saw_all = nodes[0].client();
    let epoch = saw_all.subscribe("news");
    for offset in 1..=5 {
        nodes[0].admin.publish("news", offset);
    }
    (1..=5).for_each(|offset| assert_message(&mut saw_all, offset, &json!(offset)));
    lose_newest_messages(&redis);
    for node in &nodes {
        let published = await_published(node, &json!("again"));
        assert_ne!(published["epoch"], json!(epoch));
    }
    let gap = next_object(&mut saw_all);
    assert!(gap["gap"].is_object(), "{gap}");
    (4..=5).for_each(|offset| assert_message(&mut saw_all, offset, &json!("again")));
}

#[test]
fn without_redis_a_server_starts_and_waits_for_it() {
    let mut redis = Redis::start();
    redis.kill();
    let server = launch(&redis).start();
    let mut client = server.client();
    let reply = client.request(r#"{"id":1,"subscribe":{"channel":"news"}}"#);
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    redis.restart();
    await_published(&server, &json!(1));
    assert_eq!(client.request(r#"{"id":2,"subscribe":{"channel":"news"}}"#)["ok"]["offset"], 1);
}

#[test]
fn metrics_report_the_state_of_redis() {
    let mut redis = Redis::start();
    let node = node(&redis);
    let value = |name: &str| node.admin.metrics().value(&format!("encke_engine_{name}"));
    node.admin.publish("news", 1);
    assert_eq!((value("up"), value("connects_total")), (1.0, 1.0));
    let generation = value("generation");
    assert!(generation > 0.0);
    assert_eq!(value("publish_seconds_count"), 1.0);
    let mut client = node.client();
    client.subscribe("news");
    assert_eq!(value("channel_opens_total"), 1.0);
    until("a probe returns", || value("feed_lag_seconds_count") >= 1.0);
    until("the server has its lease", || value("servers") == 1.0);
    redis.kill();
    until("the servers notice the failure", || value("up") == 0.0);
    redis.restart();
    until("Redis is connected again", || value("up") == 1.0 && value("connects_total") == 2.0);
    assert!(value("generation") >= generation, "{generation}");
    until("the channel is opened again", || value("channel_opens_total") >= 2.0);
}

/// A client that closes its connection while a publish is pending gets the reply before the Close frame.
#[test]
fn a_close_frame_is_answered_after_pending_replies() {
    let redis = Redis::start();
    let node = node(&redis);
    let (mut client, _) = RawClient::greeted(node.public, "");
    redis.process().while_stopped(|| {
        let publish = masked(TEXT, br#"{"id":1,"publish":{"channel":"news","data":1}}"#);
        client.send(&[publish, masked(PING, b"read"), masked(CLOSE, &[0x03, 0xE8])].concat());
        assert_eq!(client.frame_of(PONG).payload, b"read");
    });
    assert_eq!(client.object()["reply"]["ok"]["offset"], 1);
    assert_eq!(client.frame_of(CLOSE).payload, [0x03, 0xE8]);
}
