use encke_tests::network::NetworkLink;
use encke_tests::redis::Redis;
use encke_tests::waiting::until;
use encke_tests::{Launch, RunningServer};
use serde_json::json;

use super::faults::await_published;
use super::nodes::{assert_all_up_to, assert_message};

/// A server that reaches Redis by this address.
fn node_by(url: &str) -> RunningServer {
    Launch::with(&["engine.kind=redis", &format!("engine.url={url}")]).start()
}

/// A link is cut one way; another server goes on meanwhile.
#[track_caller]
fn assert_nothing_is_lost_or_doubled(deafen: impl FnOnce(&NetworkLink)) {
    let link = NetworkLink::new();
    let redis = Redis::behind(&link);
    let (far, near) = (node_by(&redis.url()), node_by(&redis.socket_url()));
    let mut follower = far.client();
    follower.subscribe("news");
    near.admin.publish("news", 1);
    assert_message(&mut follower, 1, &json!(1));
    deafen(&link);
    let answer = far.admin.post("/api/publish", r#"{"channel":"news","data":"perhaps"}"#);
    assert_eq!((answer.status, &*answer.error_code()), (503, "outcome_unknown"), "{answer:?}");
    near.admin.publish("news", "meanwhile");
    until("it is noticed", || {
        let answer = far.admin.post("/api/publish", r#"{"channel":"news","data":"perhaps not"}"#);
        assert_eq!(answer.status, 503, "{answer:?}");
        answer.error_code() == "unavailable"
    });
    near.admin.publish("news", "still");
    link.deliver_all_packets();
    await_published(&far, &json!("after"));
    let all = assert_all_up_to(&mut follower, 1, &json!("after"));
    let times = |data: &str| all.iter().filter(|one| *one == data).count();
    assert_eq!((times("meanwhile"), times("still"), times("after")), (1, 1, 1), "{all:?}");
    // What was on its way may come late, as whoever asked was told.
    assert!(times("perhaps") <= 1, "{all:?}");
}

#[test]
fn answers_of_redis_that_are_lost_lose_and_double_nothing() {
    assert_nothing_is_lost_or_doubled(NetworkLink::block_inbound);
}

#[test]
fn requests_to_redis_that_are_lost_lose_and_double_nothing() {
    assert_nothing_is_lost_or_doubled(NetworkLink::block_outbound);
}

/// Redis does not keep what it has to tell to a server that does not listen.
#[test]
fn a_server_that_redis_gives_up_reads_on_or_tells_a_gap() {
    const MESSAGES: u64 = 400;
    let redis = Redis::with(&["--client-output-buffer-limit", "pubsub", "256kb", "0", "0"]);
    let (slow, quick) = (node_by(&redis.url()), node_by(&redis.url()));
    let mut follower = slow.client();
    follower.subscribe("news");
    let long = "x".repeat(60_000);
    slow.while_stopped(|| {
        for number in 1..=MESSAGES {
            quick.admin.publish("news", json!([number, long]));
        }
    });
    let mut offset = 0;
    while offset < MESSAGES {
        let object = follower.object();
        let (gap, message) = (&object["gap"], &object["message"]);
        if gap.is_object() {
            assert_eq!(gap["from"], offset + 1, "{gap}");
            offset = gap["to"].as_u64().expect("where it ends");
        } else {
            offset += 1;
            assert_eq!((&message["offset"], &message["data"][0]), (&json!(offset), &json!(offset)));
        }
    }
    assert_eq!(slow.admin.metrics().value("encke_engine_connects_total"), 2.0);
}
