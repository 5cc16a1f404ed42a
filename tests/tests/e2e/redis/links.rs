use encke_tests::network::NetworkLink;
use encke_tests::redis::Redis;
use encke_tests::waiting::until;
use encke_tests::{Launch, RunningServer};
use serde_json::json;

use super::faults::await_published;
use super::nodes::{assert_all_up_to, assert_message};

/// Starts a server that connects to Redis with this URL.
fn node_at(url: &str) -> RunningServer {
    Launch::with(&["engine.kind=redis", &format!("engine.url={url}")]).start()
}

/// Asserts that no message is lost or duplicated when a server's link to Redis is blocked in one direction,
/// while another server, which does not use the link, continues.
#[track_caller]
fn assert_lossless(block: impl FnOnce(&NetworkLink)) {
    let link = NetworkLink::new();
    let redis = Redis::behind(&link);
    let (far, near) = (node_at(&redis.url()), node_at(&redis.socket_url()));
    let mut subscriber = far.client();
    subscriber.subscribe("news");
    near.admin.publish("news", 1);
    assert_message(&mut subscriber, 1, &json!(1));
    block(&link);
    let answer = far.admin.post("/api/publish", r#"{"channel":"news","data":"perhaps"}"#);
    assert_eq!((answer.status, &*answer.error_code()), (503, "outcome_unknown"), "{answer:?}");
    near.admin.publish("news", "meanwhile");
    until("the server notices the failure", || {
        let answer = far.admin.post("/api/publish", r#"{"channel":"news","data":"perhaps not"}"#);
        assert_eq!(answer.status, 503, "{answer:?}");
        answer.error_code() == "unavailable"
    });
    near.admin.publish("news", "still");
    link.deliver_all_packets();
    await_published(&far, &json!("after"));
    let all = assert_all_up_to(&mut subscriber, 1, &json!("after"));
    let count = |data: &str| all.iter().filter(|it| *it == data).count();
    assert_eq!((count("meanwhile"), count("still"), count("after")), (1, 1, 1), "{all:?}");
    // A publish with an unknown outcome may still arrive.
    assert!(count("perhaps") <= 1, "{all:?}");
}

#[test]
fn lost_replies_neither_lose_nor_duplicate_messages() {
    assert_lossless(NetworkLink::block_inbound);
}

#[test]
fn lost_requests_neither_lose_nor_duplicate_messages() {
    assert_lossless(NetworkLink::block_outbound);
}

/// Redis disconnects a subscriber that does not read, rather than buffer without limit.
#[test]
fn a_disconnected_slow_server_catches_up_or_reports_gaps() {
    const MESSAGES: u64 = 400;
    let redis = Redis::with(&["--client-output-buffer-limit", "pubsub", "256kb", "0", "0"]);
    let (slow, quick) = (node_at(&redis.url()), node_at(&redis.url()));
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
        let (gap, message) = (&object["gap"], &object["message"]);
        if gap.is_object() {
            assert_eq!(gap["from"], offset + 1, "{gap}");
            offset = gap["to"].as_u64().expect("the gap has an end");
        } else {
            offset += 1;
            assert_eq!((&message["offset"], &message["data"][0]), (&json!(offset), &json!(offset)));
        }
    }
    assert_eq!(slow.admin.metrics().value("encke_engine_connects_total"), 2.0);
}
