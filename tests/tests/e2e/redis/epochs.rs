//! A Redis that restarts and has lost nothing: channels get a new epoch, which continues the old one.

use encke_tests::EventStream;
use encke_tests::redis::Redis;
use serde_json::{Value, json};

use super::{assert_numbers, await_connected, await_published, launch, node, subscribe_since};

/// Reads until a message with these data, without a gap. Returns its event id.
#[track_caller]
fn next_message(stream: &mut EventStream, data: u64) -> String {
    loop {
        let (id, object) = stream.object();
        assert!(object.get("gap").is_none(), "{object}");
        if object.get("message").is_some() {
            assert_eq!(object["message"]["data"], data, "{object}");
            return id.expect("a message has an id");
        }
    }
}

/// Clients that stay connected learn the new epoch from the next message. They can take it to another server.
#[test]
fn nothing_is_repeated_after_a_restart_without_loss() {
    let mut redis = Redis::persistent();
    let nodes = [node(&redis), node(&redis)];
    let mut client = nodes[0].client();
    let first_epoch = client.subscribe("news");
    let mut stream = EventStream::greeted(nodes[0].public, "channels=news").0;
    nodes[0].admin.publish_each("news", 1..=2);
    assert_numbers(&mut client, 1..=2);
    next_message(&mut stream, 1);
    let id = next_message(&mut stream, 2);
    let mut stream = EventStream::reconnect(nodes[0].public, "channels=news", &id);

    let (mut epoch, mut id) = (Value::Null, String::new());
    for number in 3..=5 {
        redis.kill();
        nodes.iter().for_each(|node| await_connected(node, false));
        redis.restart();
        let published = await_published(&nodes[0], "news", number);
        assert_eq!(published["offset"], number, "Redis has lost messages");
        assert_ne!(published["epoch"], epoch);
        epoch = published["epoch"].clone();
        let message = client.object()["message"].take();
        assert_eq!((&message["data"], &message["epoch"]), (&json!(number), &epoch));
        id = next_message(&mut stream, number);
    }
    nodes.iter().for_each(|node| await_connected(node, true));

    let mut absent = nodes[1].client();
    assert_eq!(subscribe_since(&mut absent, &first_epoch, 2)["ok"]["recovered"], true);
    assert_numbers(&mut absent, 3..=5);
    let mut moved = nodes[1].client();
    let reply = subscribe_since(&mut moved, epoch.as_str().expect("a string"), 5);
    assert_eq!(reply["ok"]["recovered"], true, "{reply}");
    let mut moved_stream = EventStream::reconnect(nodes[1].public, "channels=news", &id);
    moved_stream.hello();
    nodes[1].admin.publish("news", 6);
    assert_numbers(&mut moved, 6..=6);
    next_message(&mut moved_stream, 6);
}

/// The stream has received more messages than the server keeps for a session (`session.max_unacked`).
#[test]
fn a_stream_with_more_messages_than_are_kept_gets_no_gap() {
    let mut redis = Redis::persistent();
    let node = launch(&redis).set("session.max_unacked=16").start();
    let mut stream = EventStream::greeted(node.public, "channels=news").0;
    node.admin.publish_each("news", 1..=20);
    (1..=20).for_each(|number| _ = next_message(&mut stream, number));
    redis.kill();
    await_connected(&node, false);
    redis.restart();
    await_published(&node, "news", 21);
    next_message(&mut stream, 21);
}
