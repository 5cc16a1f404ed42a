use std::fs::{self, OpenOptions};
use std::path::PathBuf;

use encke_tests::redis::Redis;
use encke_tests::waiting::{eventually_within, until};
use serde_json::json;

use super::faults::{NOTICED, await_published};
use super::node;
use super::nodes::{assert_all_up_to, assert_message};

const APPEND_ONLY: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "everysec"];

/// The file to which it appends all that it is told.
fn appended_to(redis: &Redis) -> PathBuf {
    let files = fs::read_dir(redis.directory().join("appendonlydir")).expect("its directory");
    let mut paths = files.map(|file| file.expect("a file").path());
    paths.find(|path| path.display().to_string().ends_with(".incr.aof")).expect("the file is there")
}

#[test]
fn a_redis_that_keeps_its_file_loses_nothing_when_it_is_killed() {
    let mut redis = Redis::with(&APPEND_ONLY);
    let nodes = [node(&redis), node(&redis)];
    let mut followers = nodes.each_ref().map(|node| node.client());
    let epochs = followers.each_mut().map(|follower| follower.subscribe("news"));
    for offset in 1..=3 {
        nodes[0].admin.publish("news", offset);
    }
    assert_message(&mut followers[0], 1, &json!(1));
    redis.kill();
    redis.restart();
    await_published(&nodes[1], &json!("after"));
    assert_all_up_to(&mut followers[0], 1, &json!("after"));
    assert_all_up_to(&mut followers[1], 0, &json!("after"));
    let since = json!({"epoch": epochs[0], "offset": 3});
    let subscribe = json!({"id": 1, "subscribe": {"channel": "news", "since": since}});
    let mut back = nodes[0].client();
    assert_eq!(back.request(&subscribe.to_string())["ok"]["recovered"], true);
    assert_all_up_to(&mut back, 3, &json!("after"));
}

/// What a machine that lost its power leaves behind: the newest messages were not on disk.
#[test]
fn only_those_who_have_seen_what_was_not_on_disk_are_told() {
    let mut redis = Redis::with(&APPEND_ONLY);
    let nodes = [node(&redis), node(&redis)];
    let mut saw_all = nodes[0].client();
    let epoch = saw_all.subscribe("news");
    for offset in 1..=3 {
        nodes[0].admin.publish("news", offset);
    }
    let file = appended_to(&redis);
    let kept = fs::metadata(&file).expect("its length").len();
    for offset in 4..=5 {
        nodes[1].admin.publish("news", offset);
    }
    (1..=5).for_each(|offset| assert_message(&mut saw_all, offset, &json!(offset)));
    redis.kill();
    let file = OpenOptions::new().write(true).open(file).expect("the file is there");
    file.set_len(kept).expect("it can be shorter");
    redis.restart();
    let published = await_published(&nodes[1], &json!("after"));
    assert_eq!(published["offset"], 4);
    let gap = saw_all.object();
    assert_eq!(gap["gap"]["epoch"], published["epoch"], "{gap}");
    assert_message(&mut saw_all, 4, &json!("after"));
    until("both are connected", || {
        nodes.iter().all(|node| node.admin.metrics().value("encke_engine_up") == 1.0)
    });
    for (offset, recovered) in [(3, true), (5, false)] {
        let since = json!({"epoch": epoch, "offset": offset});
        let subscribe = json!({"id": 1, "subscribe": {"channel": "news", "since": since}});
        let reply = eventually_within(NOTICED, "it is followed", || {
            let reply = nodes[1].client().request(&subscribe.to_string());
            reply["ok"].is_object().then_some(reply)
        });
        assert_eq!(reply["ok"]["recovered"], recovered, "{reply}");
    }
}
