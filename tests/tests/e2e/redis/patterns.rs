use std::collections::BTreeMap;

use encke_tests::bayeux::{BayeuxPolling, connect_now, events};
use encke_tests::redis::Redis;
use encke_tests::waiting::until;
use redis::Connection;
use serde_json::json;

use super::{assert_gap, assert_not_opened, await_published, exec, kill_connections, launch, node, query};

/// Returns the number of globs that Redis matches against each publish.
fn glob_count(connection: &mut Connection) -> u64 {
    query(connection, &["PUBSUB", "NUMPAT"])
}

#[test]
fn matching_messages_arrive_from_all_servers() {
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let mut client = nodes[0].client();
    let epoch = client.subscribe("/a/**");
    let (mut shallow, mut polls) = (nodes[1].client(), BayeuxPolling::connect(nodes[1].public));
    shallow.subscribe("/a/*");
    let id = polls.open(&["/a/*", "/a/b"]);
    let published = ["/b", "/a/b", "/a/b/c", "/a/d", "a/e"]
        .map(|channel| (channel, nodes[1].admin.publish(channel, channel)));
    for (number, at) in [(1, 1), (2, 2), (3, 3)] {
        let (channel, reply) = &published[at];
        let expected = json!({
            "seq": number, "pattern": {"name": "/a/**", "epoch": epoch, "offset": number},
            "epoch": reply["epoch"], "channel": channel, "offset": reply["offset"], "data": channel,
        });
        assert_eq!(client.message(), expected);
    }
    for at in [1, 3] {
        assert_eq!(shallow.message()["channel"], published[at].0);
    }
    let mut received = Vec::new();
    until("the messages arrive", || {
        received.extend(events(&polls.request(&connect_now(&id))));
        received.last().is_some_and(|data| data == "/a/d")
    });
    assert_eq!(received, ["/a/b", "/a/d"]);
    // The history and epoch of a pattern are local to the server. Another server does not know the epoch.
    let history = nodes[0].admin.get("/api/channels/%2Fa%2F**/history").json();
    assert_eq!((&history["epoch"], &history["last"]), (&json!(epoch), &json!(3)));
    let since = json!({"id": 1, "subscribe": {"channel": "/a/**", "since": {"epoch": epoch, "offset": 1}}});
    assert_eq!(nodes[0].client().request(&since)["ok"]["recovered"], true);
    let mut on_other = nodes[1].client();
    assert_eq!(on_other.request(&since)["ok"]["recovered"], false);
    assert_gap(&mut on_other, "/a/**");
}

/// Channels are repeatedly subscribed to and unsubscribed from while messages arrive through the pattern.
#[test]
fn a_message_arrives_once_by_pattern_and_channel() {
    const CHANNELS: u64 = 8;
    const MESSAGES: u64 = 4000;
    let redis = Redis::start();
    let nodes = [(); 2].map(|()| {
        let launch = launch(&redis).set("limits.commands_per_second=0").set("limits.frames_per_second=0");
        launch.set("channel.history_messages=5000").start()
    });
    let mut client = nodes[0].client();
    client.subscribe("/a/**");
    let mut publisher = nodes[1].client();
    let publishing = std::thread::spawn(move || {
        for number in 0..MESSAGES {
            let channel = format!("/a/{}", number % CHANNELS);
            publisher.send(json!({"publish": {"channel": channel, "data": number}}));
        }
        publisher
    });
    let (mut last, mut received, mut replies) = (BTreeMap::<String, u64>::new(), 0, 0);
    while received < MESSAGES || replies < MESSAGES / 50 {
        let object = client.object();
        if object["reply"].is_object() {
            assert!(object["reply"]["ok"].is_object(), "{object}");
            replies += 1;
            continue;
        }
        let message = &object["message"];
        let channel = message["channel"].as_str().unwrap_or_else(|| panic!("{object}")).to_owned();
        let last = last.entry(channel).or_default();
        *last += 1;
        received += 1;
        assert_eq!((&message["seq"], &message["offset"]), (&json!(received), &json!(last)), "{object}");
        let number = message["data"].as_u64().expect("a number");
        assert_eq!(number / CHANNELS, *last - 1, "the publisher's order: {object}");
        if received % 50 == 0 {
            let number = received / 50;
            let channel = format!("/a/{}", number % CHANNELS);
            let command = if (number / CHANNELS).is_multiple_of(2) { "subscribe" } else { "unsubscribe" };
            client.send(json!({"id": number, command: {"channel": channel}}));
        }
    }
    drop(publishing.join().expect("the publisher does not panic"));
}

/// A client that is also subscribed to the channel misses nothing. A client with only the pattern gets a gap.
#[test]
fn broken_connections_lose_nothing_without_a_gap() {
    const MESSAGES: u64 = 300;
    let redis = Redis::start();
    let nodes = [node(&redis), node(&redis)];
    let [mut of_pattern, mut of_channel, mut of_both] = [(); 3].map(|()| nodes[0].client());
    for (client, channels) in
        [(&mut of_pattern, &["/a/**"][..]), (&mut of_channel, &["/a/b"]), (&mut of_both, &["/a/**", "/a/b"])]
    {
        channels.iter().for_each(|channel| _ = client.subscribe(channel));
    }
    let mut connection = redis.connect();
    for number in 1..=MESSAGES {
        if number % 50 == 0 {
            ["pubsub", "normal"].iter().for_each(|kind| kill_connections(&mut connection, kind));
        }
        await_published(&nodes[1], "/a/b", number);
    }
    for (client, has_pattern, has_channel) in
        [(&mut of_pattern, true, false), (&mut of_channel, false, true), (&mut of_both, true, true)]
    {
        let (mut offset, mut gaps, mut is_missing, mut last) = (0, 0, false, 0);
        while last < MESSAGES {
            let object = client.object();
            if object["gap"].is_object() {
                assert_eq!(object["gap"]["channel"], "/a/**", "{object}");
                (gaps, is_missing) = (gaps + 1, true);
                continue;
            }
            let message = &object["message"];
            let [next, number] = ["offset", "data"].map(|field| message[field].as_u64().expect("a number"));
            let may_skip = is_missing && !has_channel;
            assert!(next == offset + 1 || (may_skip && next > offset), "{object} after {offset}");
            // A publish whose reply was lost may have taken effect, and then appears twice.
            assert!(number == last + 1 || number == last || may_skip, "{object} after {last}");
            (offset, is_missing, last) = (next, false, number);
        }
        let possible = if has_pattern { 1..=MESSAGES / 50 } else { 0..=0 };
        assert!(possible.contains(&gaps), "{gaps}");
    }
}

#[test]
fn glob_characters_in_names_are_literal() {
    let redis = Redis::start();
    let node = node(&redis);
    let mut client = node.client();
    for pattern in ["/a[bc]/*", "/x?/**", "/\\\\d/*"] {
        client.subscribe(pattern);
    }
    for other in ["/ab/1", "/xy/1", "/d/1", "/a[bc]/1/2", "}c:/a[bc]/1", "/z}c:/x?/1"] {
        node.admin.publish(other, 0);
    }
    for channel in ["/a[bc]/1", "/x?/1/2", "/\\d/}c:"] {
        node.admin.publish(channel, 1);
        assert_eq!(client.message()["channel"], channel);
    }
}

#[test]
fn the_number_of_globs_is_limited() {
    let redis = Redis::start();
    let nodes = [launch(&redis).set("limits.commands_per_second=0").start(), node(&redis)];
    let mut client = nodes[0].client();
    for number in 0..70 {
        client.subscribe(&format!("/{number}/*"));
    }
    let mut connection = redis.connect();
    assert_eq!(glob_count(&mut connection), 65);
    nodes[1].admin.publish("/other/a", 0);
    for number in [0, 63, 64, 69] {
        nodes[1].admin.publish(&format!("/{number}/a"), number);
        assert_eq!(client.message()["data"], number);
    }
    kill_connections(&mut connection, "pubsub");
    let mut names: Vec<_> = (0..70).map(|_| client.object()["gap"]["channel"].to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 70);
    assert_eq!(glob_count(&mut connection), 65);
    // The other server's connection was killed as well.
    await_published(&nodes[1], "/69/a", 1);
    assert_eq!(client.message()["data"], 1);
}

#[test]
fn patterns_without_permission_are_unavailable() {
    let redis = Redis::start();
    let mut connection = redis.connect();
    exec(&mut connection, &["ACL", "SETUSER", "default", "resetchannels", "&encke:*"]);
    let node = node(&redis);
    let mut client = node.client();
    assert_not_opened(&mut client, "/a/*");
    client.subscribe("/a/b");
    // Allow the widest glob, which covers all patterns.
    exec(&mut connection, &["ACL", "SETUSER", "default", "&encke:{*}c:/**"]);
    client.subscribe("/a/*");
    for (channel, data) in [("/a/b", 1), ("/a/b/c", 2), ("/b", 3), ("/a/d", 4)] {
        node.admin.publish(channel, data);
    }
    for data in [1, 4] {
        assert_eq!(client.message()["data"], data);
    }
}
