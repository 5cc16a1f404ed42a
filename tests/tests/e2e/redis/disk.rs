use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use encke_tests::redis::Redis;
use encke_tests::waiting::{eventually_within, until};
use serde_json::json;

use super::faults::{DETECTION_TIMEOUT, await_published};
use super::node;
use super::nodes::{assert_all_up_to, assert_message};

/// Returns the path of the incremental append-only file.
fn append_only_file(redis: &Redis) -> PathBuf {
    let files = fs::read_dir(redis.directory().join("appendonlydir")).expect("the directory can be listed");
    let mut paths = files.map(|file| file.expect("the entry can be read").path());
    paths.find(|path| path.display().to_string().ends_with(".incr.aof")).expect("the file exists")
}

#[test]
fn a_persistent_redis_loses_nothing_when_killed() {
    let mut redis = Redis::persistent();
    let nodes = [node(&redis), node(&redis)];
    let mut subscribers = nodes.each_ref().map(|node| node.client());
    let epochs = subscribers.each_mut().map(|subscriber| subscriber.subscribe("news"));
    for offset in 1..=3 {
        nodes[0].admin.publish("news", offset);
    }
    assert_message(&mut subscribers[0], 1, &json!(1));
    redis.kill();
    redis.restart();
    await_published(&nodes[1], &json!("after"));
    assert_all_up_to(&mut subscribers[0], 1, &json!("after"));
    assert_all_up_to(&mut subscribers[1], 0, &json!("after"));
    let since = json!({"epoch": epochs[0], "offset": 3});
    let subscribe = json!({"id": 1, "subscribe": {"channel": "news", "since": since}});
    let mut resumed = nodes[0].client();
    assert_eq!(resumed.request(&subscribe.to_string())["ok"]["recovered"], true);
    assert_all_up_to(&mut resumed, 3, &json!("after"));
}

/// Simulates a power failure before the newest messages have been written to disk.
#[test]
fn only_clients_that_saw_unsaved_messages_get_a_gap() {
    let mut redis = Redis::persistent();
    let nodes = [node(&redis), node(&redis)];
    let mut saw_all = nodes[0].client();
    let epoch = saw_all.subscribe("news");
    for offset in 1..=3 {
        nodes[0].admin.publish("news", offset);
    }
    let file = append_only_file(&redis);
    let kept = fs::metadata(&file).expect("the length can be read").len();
    for offset in 4..=5 {
        nodes[1].admin.publish("news", offset);
    }
    (1..=5).for_each(|offset| assert_message(&mut saw_all, offset, &json!(offset)));
    redis.kill();
    let file = OpenOptions::new().write(true).open(file).expect("the file exists");
    file.set_len(kept).expect("the file can be truncated");
    redis.restart();
    let published = await_published(&nodes[1], &json!("after"));
    assert_eq!(published["offset"], 4);
    let gap = saw_all.object();
    assert_eq!(gap["gap"]["epoch"], published["epoch"], "{gap}");
    assert_message(&mut saw_all, 4, &json!("after"));
    until("both servers are connected to Redis", || {
        nodes.iter().all(|node| node.admin.metrics().value("encke_engine_up") == 1.0)
    });
    for (offset, recovered) in [(3, true), (5, false)] {
        let since = json!({"epoch": epoch, "offset": offset});
        let subscribe = json!({"id": 1, "subscribe": {"channel": "news", "since": since}});
        let reply = eventually_within(DETECTION_TIMEOUT, "the channel can be subscribed to", || {
            let reply = nodes[1].client().request(&subscribe.to_string());
            reply["ok"].is_object().then_some(reply)
        });
        assert_eq!(reply["ok"]["recovered"], recovered, "{reply}");
    }
}
