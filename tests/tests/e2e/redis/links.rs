use encke_tests::RawClient;
use encke_tests::network::NetworkLink;
use encke_tests::raw::{CLOSE, PING, PONG, TEXT, masked};
use encke_tests::redis::Redis;
use encke_tests::waiting::until;
use serde_json::json;

use super::{assert_all_up_to, await_published, launch_at, node};

/// A server's link to Redis loses replies, and later requests, while another server, which does not use the
/// link, continues.
#[test]
fn a_blocked_link_neither_loses_nor_duplicates_messages() {
    let link = NetworkLink::new();
    let redis = Redis::behind(&link);
    let (far, near) = (launch_at(redis.url()).start(), launch_at(redis.socket_url()).start());
    let mut subscriber = far.client();
    subscriber.subscribe("news");
    let mut offset = 0;
    for block in [NetworkLink::block_inbound, NetworkLink::block_outbound] {
        block(&link);
        let publish = |data: &str| {
            let answer = far.admin.post("/api/publish", json!({"channel": "news", "data": data}));
            assert_eq!(answer.status, 503, "{answer:?}");
            answer.error_code()
        };
        assert_eq!(publish("perhaps"), "outcome_unknown");
        near.admin.publish("news", "meanwhile");
        until("the server notices the failure", || publish("perhaps not") == "unavailable");
        near.admin.publish("news", "still");
        link.deliver_all_packets();
        await_published(&far, "news", "after");
        let all = assert_all_up_to(&mut subscriber, offset, "after");
        let count = |data: &str| all.iter().filter(|it| *it == data).count();
        assert_eq!(["meanwhile", "still", "after"].map(count), [1; 3], "{all:?}");
        // A publish with an unknown outcome may still arrive.
        assert!(count("perhaps") <= 1, "{all:?}");
        offset += all.len() as u64;
    }
}

/// A client that closes its connection while a publish is pending gets the reply before the Close frame.
#[test]
fn a_frozen_redis_delays_replies_and_causes_no_gap() {
    let redis = Redis::start();
    let node = node(&redis);
    let mut by_pattern = node.client();
    let epoch = by_pattern.subscribe("/a/*");
    let (mut client, _) = RawClient::greeted(node.public, "");
    redis.process().while_stopped(|| {
        let publish = masked(TEXT, br#"{"id":1,"publish":{"channel":"/a/b","data":1}}"#);
        client.send([publish, masked(PING, b"read"), masked(CLOSE, &[0x03, 0xE8])].concat());
        assert_eq!(client.frame_of(PONG).payload, b"read");
    });
    assert_eq!(client.object()["reply"]["ok"]["offset"], 1);
    assert_eq!(client.frame_of(CLOSE).payload, [0x03, 0xE8]);
    let position = json!({"name": "/a/*", "epoch": epoch, "offset": 1});
    assert_eq!(by_pattern.object()["message"]["pattern"], position);
}

/// Redis disconnects a subscriber that does not read, rather than buffer without limit.
#[test]
fn a_disconnected_slow_server_catches_up_or_reports_gaps() {
    const MESSAGES: u64 = 400;
    let redis = Redis::with(&["--client-output-buffer-limit", "pubsub", "256kb", "0", "0"]);
    let (slow, quick) = (node(&redis), node(&redis));
    let mut subscriber = slow.client();
    subscriber.subscribe("news");
    let long = "x".repeat(60_000);
    slow.while_stopped(|| {
        for number in 1..=MESSAGES {
            quick.admin.publish("news", json!([number, long]));
        }
    });
    let mut offset = 0;
    while offset < MESSAGES {
        let object = subscriber.object();
        let gap = &object["gap"];
        if gap.is_object() {
            assert_eq!(gap["from"], offset + 1, "{gap}");
            offset = gap["to"].as_u64().expect("the gap has an end");
        } else {
            offset += 1;
            let message = &object["message"];
            assert_eq!((&message["offset"], &message["data"][0]), (&json!(offset), &json!(offset)));
        }
    }
    assert_eq!(slow.admin.metrics().value("encke_engine_connects_total"), 2.0);
}
