use std::collections::BTreeMap;

use encke_tests::redis::Redis;
use encke_tests::waiting::until;
use serde_json::{Value, json};

use super::{launch, query};
use crate::history::{assert_notices_are_left_out, offsets, page, read_backwards};

/// A server reads the history of a channel that it does not follow, and does not follow it afterwards.
#[test]
fn any_server_reads_a_history() {
    let mut redis = Redis::start();
    let rules = "namespace=[{prefix='at', at_ms=true}, {prefix='room', join_leave=true}]";
    let start = || {
        let launch = launch(&redis).set(rules).set("limits.commands_per_second=0");
        launch.set("limits.joins_per_minute=0").start()
    };
    let [writer, reader] = [start(), start()];
    writer.admin.publish_each("news", 1..=200);
    let mut client = reader.client();
    let all: BTreeMap<u64, Value> = (1..=200).map(|number| (number, json!(number))).collect();
    for limit in [7, 32, 50, 256] {
        assert_eq!(read_backwards(|command| client.request(command), "news", limit), all, "{limit}");
    }
    let after = page(|command| client.request(command), "news", json!({"since": 10, "limit": 100}));
    assert_eq!((offsets(&after), &after["more"]), ((11..=110).collect(), &json!(true)));
    let after = page(|command| client.request(command), "news", json!({"since": 110, "limit": 90}));
    assert_eq!((offsets(&after), &after["more"]), ((111..=200).collect(), &json!(false)));
    let after = page(|command| client.request(command), "news", json!({"since": 200}));
    assert_eq!((offsets(&after), &after["more"]), (vec![], &json!(false)));
    for fields in [json!({"before": 0}), json!({"before": 1}), json!({"since": u64::MAX})] {
        assert!(offsets(&page(|command| client.request(command), "news", fields)).is_empty());
    }
    assert_eq!(
        page(|command| client.request(command), "absent", json!({})),
        json!({"messages": [], "more": false})
    );
    let other = page(|command| client.request(command), "news", json!({"before": 9, "epoch": "other"}));
    assert_eq!((offsets(&other), &other["more"]), (vec![], &json!(false)));
    assert!(other["epoch"].is_string(), "{other}");
    assert_eq!(reader.admin.get("/api/channels/news").status, 404, "there is no local log");
    let followed: Vec<String> = query(&mut redis.connect(), &["PUBSUB", "SHARDCHANNELS", "*news"]);
    assert_eq!(followed, [] as [String; 0]);

    let mut alice = writer.client();
    alice.publish("at", [1]);
    let message = page(|command| client.request(command), "at", json!({}))["messages"][0].take();
    assert!(message["at_ms"].is_u64() && message.get("age_ms").is_none(), "{message}");
    // Large messages make a page shorter.
    (0..5).for_each(|_| drop(writer.admin.publish("large", "x".repeat(30_000))));
    let newest = page(|command| client.request(command), "large", json!({}));
    assert_eq!((offsets(&newest), &newest["more"]), (vec![4, 5], &json!(true)));
    let oldest = page(|command| client.request(command), "large", json!({"since": 0}));
    assert_eq!((offsets(&oldest), &oldest["more"]), (vec![1, 2], &json!(true)));

    assert_notices_are_left_out(&writer);

    redis.kill();
    let unavailable = |reply: &Value| reply["error"]["code"] == "unavailable";
    let history = r#"{"id":1,"history":{"channel":"news"}}"#;
    until("the history is unavailable", || unavailable(&client.request(history)));
}
