use std::io::{Read, Write};
use std::net::TcpListener;

use encke_tests::RunningServer;
use encke_tests::redis::Redis;
use encke_tests::waiting::{eventually_within, until};
use serde_json::json;

use super::{
    DETECTION_TIMEOUT, assert_gap, assert_message, assert_not_opened, assert_numbers, await_published, exec,
    keys_of_news, node, subscribers_with_three_messages, try_subscribe,
};

#[test]
fn an_empty_redis_causes_gaps() {
    let mut redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let value = |name: &str| nodes[0].admin.metrics().value(&format!("encke_engine_{name}"));
    let (mut subscribers, epoch) = subscribers_with_three_messages(&nodes);
    assert_eq!(["up", "connects_total", "channel_opens_total"].map(value), [1.0; 3]);
    assert_eq!(value("publish_seconds_count"), 2.0);
    let generation = value("generation");
    assert!(generation > 0.0);
    let mut by_pattern = nodes[0].client();
    by_pattern.subscribe("/a/*");
    until("a probe returns", || value("feed_lag_seconds_count") >= 1.0);
    until("all servers have leases", || value("servers") == 2.0);

    redis.kill();
    let status = |node: &RunningServer| node.admin.get("/readyz").status;
    until("the servers notice the failure", || nodes.iter().all(|node| status(node) == 503));
    assert_eq!(nodes[0].admin.get("/readyz").json(), json!({"status": "engine_down"}));
    assert_eq!(value("up"), 0.0);
    // A server starts without Redis and waits for it.
    let third = node(&redis);
    for node in nodes.iter().chain([&third]) {
        assert_eq!(node.admin.get("/healthz").status, 200);
        node.client().assert_refused(r#"{"id":1,"publish":{"channel":"news","data":1}}"#, "unavailable");
    }
    // Clients can still subscribe to channels and patterns that have subscribers on this server. Others
    // cannot be opened.
    let mut late = nodes[0].client();
    assert_eq!(try_subscribe(&mut late, "news")["ok"]["offset"], 3);
    let mut late_by_pattern = nodes[0].client();
    late_by_pattern.subscribe("/a/*");
    let mut waiting = third.client();
    assert_not_opened(&mut late, "sports");
    assert_not_opened(&mut late, "/b/*");
    assert_not_opened(&mut waiting, "news");

    redis.restart();
    let published = await_published(&nodes[1], "news", "again");
    assert_ne!(published["epoch"], json!(epoch));
    for subscriber in subscribers.iter_mut().chain([&mut late]) {
        assert_eq!(assert_gap(subscriber, "news"), published["epoch"]);
        assert_message(subscriber, 1, "again");
    }
    for client in [&mut by_pattern, &mut late_by_pattern] {
        assert_gap(client, "/a/*");
    }
    await_published(&nodes[1], "/a/b", "by pattern");
    for client in [&mut by_pattern, &mut late_by_pattern] {
        assert_message(client, 1, "by pattern");
    }
    until("the third server is connected", || try_subscribe(&mut waiting, "news")["ok"]["offset"] == 1);
    until("the servers are ready", || nodes.iter().all(|node| status(node) == 200));
    assert_eq!((value("up"), value("connects_total")), (1.0, 2.0));
    assert!(value("generation") >= generation && value("channel_opens_total") >= 2.0);
}

/// A server that does not publish also notices that Redis has lost its scripts.
#[test]
fn lost_scripts_are_loaded_again() {
    let redis = Redis::start();
    let node = node(&redis);
    let mut client = node.client();
    client.subscribe("news");
    exec(&mut redis.connect(), &["SCRIPT", "FLUSH"]);
    until("another channel can be subscribed to", || {
        let reply = try_subscribe(&mut client, "sports");
        assert!(reply["ok"].is_object() || reply["error"]["code"] == "unavailable", "{reply}");
        reply["ok"].is_object()
    });
    exec(&mut redis.connect(), &["SCRIPT", "FLUSH"]);
    // No client sends anything. The server notices the loss because renewing its lease fails.
    let connects = || node.admin.metrics().value("encke_engine_connects_total");
    eventually_within(DETECTION_TIMEOUT, "the server notices the loss", || (connects() >= 3.0).then_some(()));
}

/// Removes messages 4 and 5, as if a lagging replica had been promoted, and keeps all connections.
#[track_caller]
fn lose_newest_messages(redis: &Redis) {
    let [meta, log, _] = keys_of_news();
    let mut pipeline = redis::pipe();
    pipeline.atomic();
    pipeline.cmd("XDEL").arg(&log).arg(&["0-4", "0-5"]).cmd("XSETID").arg(&log).arg("0-3");
    pipeline.cmd("HSET").arg(&meta).arg(&["offset", "3"]);
    pipeline.cmd("DEBUG").arg("CHANGE-REPL-ID");
    pipeline.exec(&mut redis.connect()).expect("the newest messages are lost");
}

/// The first server to publish must not reuse offsets, even if no server has noticed the failover yet, and
/// even if the generation's key was lost while the servers were connected.
#[test]
fn offsets_are_not_reused_on_connections_that_survive_a_failover() {
    for is_generation_lost in [false, true] {
        let redis = Redis::with(&["--enable-debug-command", "yes"]);
        let nodes = [node(&redis), node(&redis)];
        if is_generation_lost {
            exec(&mut redis.connect(), &["FLUSHALL"]);
        }
        let mut saw_all = nodes[0].client();
        let epoch = saw_all.subscribe("news");
        nodes[0].admin.publish_each("news", 1..=5);
        assert_numbers(&mut saw_all, 1..=5);
        lose_newest_messages(&redis);
        for node in &nodes {
            let published = await_published(node, "news", "again");
            assert_ne!(published["epoch"], json!(epoch));
        }
        assert_gap(&mut saw_all, "news");
        (4..=5).for_each(|offset| assert_message(&mut saw_all, offset, "again"));
    }
}

/// The reply is rejected as soon as its length is known.
#[test]
fn a_reply_without_end_closes_the_connection() {
    let redis = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("engine.url=redis://{}", redis.local_addr().expect("the listener is bound"));
    std::thread::spawn(move || {
        for client in redis.incoming().flatten() {
            // The server closes the connection, or has closed it.
            let _ =
                (&client).write_all(b"$1000000000\r\n").and_then(|()| (&client).read_to_end(&mut Vec::new()));
        }
    });
    let server = RunningServer::with(&["engine.kind=redis", &url]);
    let line = server.logs.await_line("a reply of Redis exceeds the limit of 88080384 bytes");
    assert!(line.contains("ERROR"), "{line}");
    until("the engine counts as down", || server.admin.get("/readyz").status == 503);
}

#[test]
fn a_server_is_not_ready_while_redis_is_full() {
    let redis = Redis::start();
    let node = node(&redis);
    let mut connection = redis.connect();
    let mut limit = |bytes| exec(&mut connection, &["CONFIG", "SET", "maxmemory", bytes]);
    let readiness = || node.admin.get("/readyz").json();
    assert_eq!(node.admin.publish("news", 1)["offset"], 1);
    limit("1");
    until("the server is not ready", || readiness() == json!({"status": "engine_full"}));
    for channel in ["news", "unused"] {
        let publish = json!({"id": 1, "publish": {"channel": channel, "data": 2}});
        node.client().assert_refused(publish.to_string(), "unavailable");
    }
    node.client().assert_refused(r#"{"id":1,"subscribe":{"channel":"unused"}}"#, "unavailable");
    let line = node.logs.await_line("cannot read a channel from Redis");
    assert!(line.contains("Redis error OOM: "), "{line}");
    limit("0");
    until("the server is ready", || readiness() == json!({"status": "ok"}));
    assert_eq!(node.admin.publish("news", 2)["offset"], 2);
}
